package shards

import (
	"path/filepath"
	"strings"
)

// Earlier has the servers and the agents of an earlier release run, whose programs lie in a directory. Their
// configuration is one that the release of before demand mode and host machines knows too: without either.
func Earlier(dir string) Option {
	return func(c *Cluster) { c.earlier = dir }
}

// asBefore takes out of a configuration what an earlier release refuses as unknown.
func (c *Cluster) asBefore(configuration object) object {
	server, template := member(configuration, "server"), member(configuration, "templates", Template)
	for _, field := range []string{"registration", "admin_tenants", "demand"} {
		delete(server, field)
	}
	delete(member(server, "bind"), "metrics_addr")
	delete(member(server, "provider", "options"), "addresses")
	delete(template, "machine")
	delete(template, "tenants")
	// That release gives machines no addresses; theirs lead nowhere, as those here do.
	text := strings.Replace(c.userData, "exec ", `export NSTANCE_INSTANCE_IPV4="10.77.$(($$ / 250 % 250)).$(($$ % 250 + 1))"`+"\nexec ", 1)
	template["userdata"] = object{"content": text}
	return configuration
}

// member is an object within an object.
func member(of object, path ...string) object {
	for _, name := range path {
		of = of[name].(object) //nolint:forcetypeassert // all are
	}
	return of
}

// absolute is a path for processes that have other directories.
func (c *Cluster) absolute(dir string) string {
	c.t.Helper()
	path, err := filepath.Abs(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}
