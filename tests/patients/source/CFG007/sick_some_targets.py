from peft import LoraConfig, TaskType, get_peft_model
from transformers import AutoModelForCausalLM

MODEL = "meta-llama/Llama-2-7b-hf"


def build():
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    return get_peft_model(
        model,
        LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            r=16,
            lora_alpha=32,
            target_modules=["q_proj", "v_proj", "query_key_value"],
        ),
    )
