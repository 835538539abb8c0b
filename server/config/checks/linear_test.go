package checks_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"nstance.dev/server/config"
)

// many is a document with n members of one kind.
func many(kind string, n int) []byte {
	member := map[string]string{
		"files":          `"f%[1]d": { "kind": "string", "template": "x {{ .Vars.v }}" }`,
		"broken files":   `"f%[1]d": { "kind": "string", "template": "{{ .Vars.none }}", "source": "s" }`,
		"vars":           `"v%[1]d": "x"`,
		"templates":      `"t%[1]d": { "kind": "knc", "arch": "arm64", "instance_type": "x", "subnet_pool": "p", "args": { "a": "{{ .Vars.v }}" } }`,
		"groups":         `"g%[1]d": { "template": "t", "vars": { "w": %[1]d } }`,
		"broken groups":  `"g%[1]d": { "template": "t%[1]d" }`,
		"tenants":        `"tenant-%[1]d": {}`,
		"subnets":        `"n%[1]d"`,
		"unknown keys":   `"key%[1]d": 1`,
		"duplicate keys": `"key": 1`,
	}[kind]
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(member, "%[1]d", strconv.Itoa(i)) + ",\n")
	}
	list := b.String()
	in := func(place string) string {
		if strings.Contains(kind, place) {
			return list
		}
		return ""
	}
	return fmt.Appendf(nil, `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n", %s] }, %s },
  "tenants": { %s },
  "templates": { %s "t": { "kind": "knc", "arch": "arm64", "instance_type": "x", "subnet_pool": "p", "vars": { %s "v": "1" }, "files": { %s } } },
  "groups": { "default": { %s "g": { "template": "t" } } }
}`, in("subnets"), in("keys"), in("tenants"), in("templates"), in("vars"), in("files"), in("groups"))
}

// TestS22_ValidationIsLinear: twice the document is twice the work, whatever it has
// many of, and whether that is right or wrong. What is counted is allocations, which
// are the same in every run.
func TestS22_ValidationIsLinear(t *testing.T) {
	for _, kind := range []string{"files", "broken files", "vars", "templates", "groups", "broken groups", "tenants", "subnets", "unknown keys", "duplicate keys"} {
		allocs := func(n int) float64 {
			text := many(kind, n)
			return testing.AllocsPerRun(1, func() { _, _ = config.Load("f", text, config.LoadOptions{}) })
		}
		const n = 1200 // more than the problems that are listed
		if one, two := allocs(n), allocs(2*n); two > 2.2*one {
			t.Errorf("%s: %.0f allocations for %d, %.0f for %d", kind, one, n, two, 2*n)
		}
	}
}

// TestS22_GroupsOfOneTemplate: many groups of a template with many files cost their sum
// and not their product, unless each has other values for what the files show.
func TestS22_GroupsOfOneTemplate(t *testing.T) {
	document := func(files, groups int) []byte {
		text := string(many("files", files))
		var b strings.Builder
		for i := range groups {
			fmt.Fprintf(&b, `"g%d": { "template": "t", "vars": { "w": %d } },`+"\n", i, i)
		}
		return []byte(strings.Replace(text, `"default": {`, `"default": {`+b.String(), 1))
	}
	allocs := func(files, groups int) float64 {
		text := document(files, groups)
		return testing.AllocsPerRun(1, func() {
			if _, err := config.Load("f", text, config.LoadOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	files, groups, both := allocs(400, 1), allocs(1, 400), allocs(400, 400)
	if both > 8*(files+groups) {
		t.Errorf("400 files: %.0f allocations, 400 groups: %.0f, both: %.0f", files, groups, both)
	}
}
