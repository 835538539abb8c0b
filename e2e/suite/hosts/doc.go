// Package hosts tests node machines with a real systemd-nspawn and a real systemd in them. It needs
// root, and its build tags: hosts for machines that the tests start themselves, hostservice for
// those that the systemd of the host runs. Where a tag's tests cannot run they fail and say why.
package hosts
