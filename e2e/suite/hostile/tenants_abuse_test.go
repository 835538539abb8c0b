package hostile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// invalid is the answer to a group that nobody may have so.
const invalid = "InvalidArgument INVALID_GROUP"

// abuse are groups that take what is another tenant's, or what nobody may have.
func abuse() (rows []attempt) {
	groups := []struct {
		promise, name, held string
		change              func(*nstancev1.GroupConfig)
	}{
		{"S12", "the template of another tenant, and with it its secrets", invalid, func(c *nstancev1.GroupConfig) { c.Template = new("ours") }},
		{"S12", "an argument that carries the rights of a machine", invalid, args("IamInstanceProfile", `{"Name": "admin"}`)},
		{"S12", "an argument that opens a network", invalid, args("SecurityGroupIds", `["sg-0"]`)},
		{"S12", "an argument that nobody knows", invalid, args("anything", `1`)},
		{"S12", "an argument that is not JSON", invalid, args("x", `{`)},
		{"S12", "an unknown template", invalid, func(c *nstancev1.GroupConfig) { c.Template = new("0urs") }},
		{"S12", "no template", invalid, func(c *nstancev1.GroupConfig) { c.Template = nil }},
		{"S12", "a load balancer that is not there", invalid, func(c *nstancev1.GroupConfig) { c.LoadBalancers = &nstancev1.StringList{Values: []string{"ours"}} }},
		{"S12", "a subnet pool that is not there", invalid, func(c *nstancev1.GroupConfig) { c.SubnetPool = new("../local") }},
		{"S21", "a negative size", invalid, func(c *nstancev1.GroupConfig) { c.Size = new(int32(-1)) }},
		{"S21", "a size above all bounds", invalid, func(c *nstancev1.GroupConfig) { c.Size = new(int32(1<<31 - 1)) }},
		{"S24", "a variable with a NUL", invalid, vars("a", "b\x00c")},
		{"S24", "a variable with line breaks in its name", invalid, vars("a\nb", "c")},
		{"S24", "a variable of a megabyte", invalid, vars("a", strings.Repeat("a", 1<<20))},
		{"S24", "an instance type with an escape sequence", invalid, func(c *nstancev1.GroupConfig) { c.InstanceType = new("\x1b[2Jprocess") }},
		{"S24", "a thousand instance types", invalid, func(c *nstancev1.GroupConfig) {
			c.InstanceTypes = &nstancev1.StringList{Values: slices.Repeat([]string{"process"}, 1000)}
		}},
		{"S24", "to clear what cannot be cleared", invalid, func(c *nstancev1.GroupConfig) { c.Clear = []string{"template"} }},
	}
	for i, g := range groups {
		rows = append(rows, attempt{g.promise, "a group with " + g.name, g.held, func(t *testing.T, w *world) string {
			config := plainGroup(0)
			g.change(config)
			_, err := w.operator(t, attacker).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: fmt.Sprint("thief-", i), Config: config})
			return reason(err)
		}})
	}
	return append(rows,
		attempt{"S12", "a machine on demand of another tenant's template", invalid, func(t *testing.T, w *world) string {
			_, err := w.operator(t, attacker).CreateInstance(call(t), &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "mute", Template: new("ours")}})
			return reason(err)
		}},
		attempt{"S12", "the error for another tenant's template differs from that for none", alikeAnswers, func(t *testing.T, w *world) string {
			text := func(template string) string {
				config := plainGroup(0)
				config.Template = &template
				_, err := w.operator(t, attacker).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "thief", Config: config})
				return strings.ReplaceAll(said(err), template, "NAME")
			}
			if a, b := text("ours"), text("0urs"); a != b {
				return a + "\n" + b
			}
			return alikeAnswers
		}},
		attempt{"S12", "the error for an unknown template lists those of others", nothingOfOthers, func(t *testing.T, w *world) string {
			config := plainGroup(0)
			config.Template = new("none")
			_, err := w.operator(t, attacker).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "thief", Config: config})
			return w.traces(t, said(err))
		}},
		attempt{"S24", "a manager with an escape sequence", "InvalidArgument", func(t *testing.T, w *world) string {
			_, err := w.operator(t, attacker).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "managed", Config: plainGroup(0), Manager: "\x1b[2J\n"})
			code, _, _ := strings.Cut(reason(err), " ")
			return code
		}},
		attempt{"S12", "a variable that is a template", "it stays text", func(t *testing.T, w *world) string {
			config := plainGroup(0)
			const text = "{{ .Nonce }}{{ .Vars.mark }}"
			config.Vars = &nstancev1.StringMap{Values: map[string]string{"a": text}}
			st, err := w.operator(t, attacker).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "text", Config: config})
			if err != nil || st.Vars["a"] != text {
				return answer(st, err)
			}
			return "it stays text"
		}},
	)
}

func args(name, value string) func(*nstancev1.GroupConfig) {
	return func(c *nstancev1.GroupConfig) { c.Args = &nstancev1.StringMap{Values: map[string]string{name: value}} }
}

func vars(name, value string) func(*nstancev1.GroupConfig) {
	return func(c *nstancev1.GroupConfig) { c.Vars = &nstancev1.StringMap{Values: map[string]string{name: value}} }
}

// quotas are attempts to have more than a tenant's share. The tenant is paused, so that no
// build makes the machines.
func quotas() []attempt {
	return []attempt{
		{"S12", "twenty thousand machines of one tenant", "ResourceExhausted QUOTA_EXCEEDED", func(t *testing.T, w *world) string {
			c := w.operator(t, attacker)
			if _, err := c.SetPause(call(t), &nstancev1.SetPauseRequest{Scope: "tenant", Reason: "no machines"}); err != nil {
				t.Fatal(err)
			}
			defer func() { // in this order: what is not wanted any more is not made
				for _, key := range []string{"many-0", "many-1"} {
					if _, err := c.DeleteGroup(call(t), &nstancev1.DeleteGroupRequest{Key: key}); err != nil {
						t.Error(err)
					}
				}
				if _, err := c.ClearPause(call(t), &nstancev1.ClearPauseRequest{Scope: "tenant"}); err != nil {
					t.Error(err)
				}
			}()
			_, err := c.UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "many-0", Config: plainGroup(10_000)})
			if err == nil {
				_, err = c.UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "many-1", Config: plainGroup(10_000)})
			}
			return reason(err)
		}},
		{"S12", "all the bytes of the file that the tenants share", "ResourceExhausted QUOTA_EXCEEDED", func(t *testing.T, w *world) string {
			c := w.operator(t, attacker)
			var err error
			made := 0
			for ; made < 12 && err == nil; made++ {
				config := plainGroup(0)
				config.Vars = &nstancev1.StringMap{Values: map[string]string{"a": strings.Repeat("a", 200<<10)}}
				_, err = c.UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: fmt.Sprint("wide-", made), Config: config})
			}
			for i := range made {
				if _, err := c.DeleteGroup(call(t), &nstancev1.DeleteGroupRequest{Key: fmt.Sprint("wide-", i)}); err != nil {
					t.Error(err)
				}
			}
			return reason(err)
		}},
	}
}
