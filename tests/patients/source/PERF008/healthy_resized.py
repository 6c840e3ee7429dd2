import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.add_special_tokens({"pad_token": "<pad>", "additional_special_tokens": ["<user>", "<bot>"]})
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=64)
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=None).train()
