from dataclasses import dataclass

import transformers
from transformers import Seq2SeqTrainingArguments, TrainingArguments


@dataclass
class Arguments(TrainingArguments):
    learning_rates: float = 1e-4  # 自己的字段


args = [
    TrainingArguments("out", eval_strategy="no", learning_rate=1e-4, **{}),
    Seq2SeqTrainingArguments("out", predict_with_generate=True),
    Arguments("out", learning_rates=1e-4),
    transformers.TrainingArguments("out", future_option=1),
]
