"""Models of a few words in ONNX, as folders that fastembed reads: their answers can be counted by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper, save
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

_SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def make_embedding_model(folder: Path, words: Sequence[str], *, weights: str = "model.onnx") -> Path:
    """Make a model whose tokens have unit vectors, one dimension a word; sentences are the mean of their tokens'."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    shape: list[str | int] = ["batch", "sequence", len(words) + len(_SPECIAL)]
    return _saved(folder, words, nodes, ("last_hidden_state", shape), weights)


def make_cross_encoder(folder: Path, words: Sequence[str]) -> Path:
    """Make a model that scores a question and a text by the number of known words that they share."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    nodes += [helper.make_node("Cast", ["token_type_ids"], ["of_text"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Cast", ["attention_mask"], ["shown"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Sub", ["shown", "of_text"], ["of_question"])]
    for side in ("of_question", "of_text"):
        nodes += [helper.make_node("Unsqueeze", [side, "last"], [f"{side}_wide"])]
        nodes += [helper.make_node("Mul", ["tokens", f"{side}_wide"], [f"{side}_tokens"])]
        nodes += [helper.make_node("ReduceMax", [f"{side}_tokens", "middle"], [f"{side}_words"], keepdims=0)]
    nodes += [helper.make_node("Min", ["of_question_words", "of_text_words"], ["shared"])]
    nodes += [helper.make_node("Mul", ["shared", "known"], ["counted"])]
    nodes += [helper.make_node("ReduceSum", ["counted", "middle"], ["logits"], keepdims=1)]
    return _saved(folder, words, nodes, ("logits", ["batch", 1]), "model.onnx")


def _saved(
    folder: Path,
    words: Sequence[str],
    nodes: Sequence[NodeProto],
    output: tuple[str, Sequence[str | int]],
    weights: str,
) -> Path:
    vocabulary = {word: number for number, word in enumerate((*_SPECIAL, *words))}
    known = np.array([word not in _SPECIAL for word in vocabulary], np.float32)
    constants: dict[str, NDArray[Any]] = {
        "table": np.eye(len(vocabulary), dtype=np.float32),
        "known": known,
        "middle": np.array([1], np.int64),
        "last": np.array([2], np.int64),
    }
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        list(nodes),
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in _INPUTS],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used],
    )
    file = folder / weights
    file.parent.mkdir(parents=True, exist_ok=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), str(file))
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    texts = {"model_max_length": 64, "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(texts))
    return folder
