// Package tofu has the acceptance tests of the OpenTofu provider, against a real server and its
// machines on this box. An engine does what OpenTofu does with a provider, through the plugin
// protocol and in this process: validate, plan, apply, read, import. `make e2e-tofu` runs them.
package tofu
