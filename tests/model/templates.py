"""Chat templates in the manner of the well-known families, and tiny tokenizers to go with them."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tokenizers.normalizers import NFC

CORPUS = [
    "The quick brown fox jumps over the lazy dog. Hello there, how are you today?\n\n",
    "def f(x):\n    return x + 1  # 12345\n",
    "你好，世界。 naïve café\n   user assistant system INST Human: AI:\n\n\n",
    " <|im_start|> <|im_end|> </s> [INST] think tool_response ",
]

CHATML = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)

LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)

QWEN25 = """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are a test. You are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role in ("user", "assistant") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

QWEN3 = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string \
and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n') %}
            {%- set reasoning_content = reasoning_content.split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content }}
            {{- '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

OPENS_THINKING = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
        {{- message['content'] }}
    {%- elif message['role'] == 'user' %}
        {{- '<|im_start|>' + message['content'] }}
    {%- else %}
        {%- set content = message['content'] %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1] %}
        {%- endif %}
        {{- '<|im_end|>' + content + '<|endoftext|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_end|><think>\\n' }}
{%- endif %}
"""

MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
"""

REFUSES_SYSTEM = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(special: list[str], marks: list[str], bos: str | None = None) -> Tokenizer:
    """Llama 3 and Qwen style; with ``bos``, its post-processor adds it to plain texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in marks])
    if bos is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
        )
    return tokenizer


def sentencepiece(special: list[str]) -> Tokenizer:
    """Mistral style: a metaspace before the first word only, bytes for what the vocabulary lacks."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{b:02X}>": 3 + b for b in range(256)}
    words = sorted({c for text in CORPUS for c in text.replace(" ", "▁")})
    vocab |= {c: len(vocab) + i for i, c in enumerate(words)}
    merges: list[tuple[str, str]] = []
    for pair in [
        ("▁", "t"),
        ("h", "e"),
        ("▁t", "he"),
        ("▁", "h"),
        ("▁", "a"),
        ("o", "u"),
        ("▁", "▁"),
        ("e", "r"),
    ]:
        merges.append(pair)
        vocab["".join(pair)] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t in ["<unk>", "<s>", "</s>", *special]]
    )
    return tokenizer


def write(folder: Path, tokenizer: Tokenizer, template: str | None, bos: str | None, eos: str) -> Path:
    """A folder as the hub has it, without weights."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": {"content": eos, "__type": "AddedToken"},
        "clean_up_tokenization_spaces": False,
    }
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


CHATML_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make(family: str, folder: Path) -> Path:
    """The folder of a tiny model of ``family``."""
    if family == "llama3":
        special = [
            "<|begin_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|end_of_text|>",
        ]
        tokenizer = byte_level(special, [], bos="<|begin_of_text|>")
        return write(folder, tokenizer, LLAMA3, "<|begin_of_text|>", "<|end_of_text|>")
    if family == "mistral":
        return write(folder, sentencepiece(["[INST]", "[/INST]"]), MISTRAL, "<s>", "</s>")
    if family == "opens-thinking":  # as DeepSeek-R1's distilled models have it
        tokenizer = byte_level(CHATML_SPECIAL, ["<think>", "</think>"])
        return write(folder, tokenizer, OPENS_THINKING, "<|im_start|>", "<|endoftext|>")
    if family == "special-thinking":  # the marks are special tokens, which have no text of their own
        tokenizer = byte_level([*CHATML_SPECIAL, "<think>", "</think>"], [])
        return write(folder, tokenizer, QWEN3, None, "<|im_end|>")
    if family == "spelled-thinking":  # no marks at all: the tags are ordinary text
        return write(folder, byte_level(CHATML_SPECIAL, []), QWEN3, None, "<|im_end|>")
    marks = ["<think>", "</think>", "<tool_response>", "</tool_response>"] if family == "qwen3" else []
    template = {"qwen2.5": QWEN25, "qwen3": QWEN3, "refuses-system": REFUSES_SYSTEM, "none": None}[family]
    bos = "<|endoftext|>" if family == "refuses-system" else None
    return write(folder, byte_level(CHATML_SPECIAL, marks), template, bos, "<|im_end|>")


FAMILIES = ["llama3", "mistral", "qwen2.5", "qwen3"]
