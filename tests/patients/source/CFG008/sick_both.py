from transformers import BitsAndBytesConfig

config = BitsAndBytesConfig(load_in_4bit=True, load_in_8bit=True, bnb_4bit_compute_dtype="bfloat16")
