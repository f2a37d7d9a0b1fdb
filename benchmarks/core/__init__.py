"""The prefix cache alone, beside SGLang's."""
