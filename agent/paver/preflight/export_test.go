package preflight

// SystemdVersion is the reader of a program's version.
var SystemdVersion = systemdVersion
