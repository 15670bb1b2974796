"""The words that a suite file may use for what an editor is made of and how one comes to it. Pure."""

from __future__ import annotations

from enum import StrEnum


class EditorShape(StrEnum):
    """What takes the keys: one word for each way that an agent or an audit can fail in its own manner."""

    TEXTAREA = "textarea"
    CONTENTEDITABLE = "contenteditable"
    DRAFT = "draft"
    LEXICAL = "lexical"
    SLATE = "slate"
    QUILL = "quill"
    PROSEMIRROR = "prosemirror"
    TIPTAP = "tiptap"
    TRIX = "trix"
    TINYMCE_FRAME = "tinymce-frame"
    TINYMCE_INLINE = "tinymce-inline"
    CKEDITOR5 = "ckeditor5"
    CKEDITOR4 = "ckeditor4"
    CODEMIRROR5 = "codemirror5"
    CODEMIRROR6 = "codemirror6"
    ACE = "ace"
    MONACO = "monaco"
    SUMMERNOTE = "summernote"
    EDITORJS = "editorjs"
    JODIT = "jodit"
    TOASTUI = "toastui"
    MEDIUM_EDITOR = "medium-editor"
    EASYMDE = "easymde"
    SHADOW_DOM = "shadow-dom"
    CROSS_ORIGIN_FRAME = "cross-origin-frame"


class Flow(StrEnum):
    """How one comes from the entry to the editor."""

    # a control mounts the editor in the page
    OPENER = "opener"
    # a control opens a dialog that holds the editor
    DIALOG = "dialog"
    # an address of its own, with a form that has more fields than the editor
    FORM = "form"
    # the editor is there from the start
    INLINE = "inline"
    # a stream of messages with the editor at its end
    CHAT = "chat"
