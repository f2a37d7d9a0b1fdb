"""Cache events folded into what people look at: mirror, snapshots, export."""
