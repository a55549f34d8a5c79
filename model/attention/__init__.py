"""The attentions of the papers, one a file; `AttentionConfig.kind` names one."""

from cortado.model.attention.config import AttentionConfig as AttentionConfig
