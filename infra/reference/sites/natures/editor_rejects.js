// The editor takes no input, by key, by paste or by command.
refuse();
