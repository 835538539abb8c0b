package groupfile

// Indented is the whole file encoded at once, which tests compare [Encode] with.
var Indented = indented
