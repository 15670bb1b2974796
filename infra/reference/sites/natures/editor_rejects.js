// The editor takes no input, by key or by paste.
refuse();
