"""The attentions of the papers, one a file; `AttentionConfig.kind` names one."""

from model.attention.config import AttentionConfig as AttentionConfig
