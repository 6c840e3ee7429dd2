import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModel.from_pretrained("bert-base-cased")
with torch.no_grad():  # 只推理
    batch = tokenizer(["a"], padding="max_length", max_length=512, return_tensors="pt")
    print(model(**batch))
