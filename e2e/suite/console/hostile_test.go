//go:build console

package console_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"nstance.dev/e2e/env/browser/stage"
)

// hostileNames are names that would do something where they are taken for markup, script or a path. A
// shard refuses them; what a page does with names must not depend on that.
var hostileNames = []string{
	`<img src=x onerror="window.pwned=1">`,
	`"><script>window.pwned=1</script>`,
	`javascript:window.pwned=1`,
	`{{constructor.constructor('window.pwned=1')()}}`,
	`../../api/console/session`,
	`a/b?c#d%2e%2e`,
	"line\nbreak\u202eright to left\u0000",
	`' onmouseover='window.pwned=1`,
	`__proto__`,
}

// TestHostileNamesDoNothing: they are shown as they are, on every page, and nothing else happens.
func TestHostileNamesDoNothing(t *testing.T) {
	var groups, instances, machines []stage.Object
	var events, failures []stage.Object
	answers := map[string]stage.Object{"/api/console/session": stage.Session("scale", "pause", "replace", "delete")}
	for i, name := range hostileNames {
		id := stage.ID(i)
		groups = append(groups, stage.Object{
			"key": name, "tenant": name, "size": 1, "mode": "fixed", "vars": stage.Object{name: name}, "instanceType": name,
			"pause": stage.Object{"scope": "group", "reason": name}, "conditions": []stage.Object{{"type": name, "message": name}},
		})
		instance := stage.Object{
			"instanceId": id, "tenant": name, "group": name, "status": name, "hostname": name, "addresses": []string{name},
			"condemned": stage.Object{"reason": name}, "files": []stage.Object{{"name": name, "kind": name}}, "life": []stage.Object{{"state": name, "at": "2026-05-06T07:08:09Z"}},
		}
		instances = append(instances, instance)
		machines = append(machines, stage.Object{"instanceId": id, "type": "machine", "machine": stage.Object{
			"assignment": stage.Object{"machineName": name, "configuration": stage.Object{"name": name}}, "status": stage.Object{"stage": name, "lastError": name},
		}})
		events = append(events, stage.Object{"shard": stage.Shard, "event": stage.Object{"instanceId": id, "tenant": name, "group": name, "status": "pending_deletion", "reason": name}})
		failures = append(failures, stage.Object{"shard": stage.Shard, "event": stage.Object{"instanceId": id, "group": name, "class": name, "error": name}})
		explanation := stage.Object{"instance": instance, "conditions": []stage.Object{{"type": name, "message": name, "instanceId": name}}, "decisions": []stage.Object{{"action": name, "reason": name, "instanceId": id, "heldBy": name}}}
		answers["/api/v1/shards/"+stage.Shard+"/groups/"+name+"/explanation"] = explanation
		answers["/api/v1/shards/"+stage.Shard+"/instances/"+id+"/explanation"] = explanation
	}
	answers["/api/console/history"] = stage.Object{"samples": []stage.Object{{"t": "2026-05-06T07:08:09Z", "size": 1}}}
	s := stage.New("../../..", []stage.Event{
		{Name: "shard", Data: stage.Object{"shard": stage.Shard, "connected": false, "error": hostileNames[0], "leader": hostileNames[1], "info": stage.Object{"version": hostileNames[0]}}},
		{Name: "groups", Data: stage.Object{"shard": stage.Shard, "snapshot": true, "groups": groups}},
		{Name: "instances", Data: stage.Object{"shard": stage.Shard, "snapshot": true, "last": true, "instances": instances}},
		{Name: "machines", Data: stage.Object{"shard": stage.Shard, "snapshot": true, "machines": machines}},
		{Name: "recent", Data: stage.Object{"events": events, "failures": failures}},
		{Name: "ready", Data: stage.Object{}},
	}, answers)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	w := &world{t: t, url: server.URL}
	w.open(server.URL)
	paths := map[string]string{"/": "What happens", "/errors": "since the console began", "/machines": "host machines", "/shards": "Term"}
	for i, name := range hostileNames {
		e := url.PathEscape(name)
		paths["/groups/"+stage.Shard+"/"+e+"/"+e] = "Settings"
		paths["/instances/"+stage.Shard+"/"+stage.ID(i)] = "Decisions about it"
	}
	for path, word := range paths {
		w.visit(path, word)
		w.harmless(path)
	}
	w.visit("/", hostileNames[0], hostileNames[1], hostileNames[3])
	var ids []string
	w.must(w.tab.Eval(`[...document.querySelectorAll(".field-name a")].map((a) => a.textContent)`, &ids))
	if len(ids) != len(hostileNames) {
		t.Errorf("the fleet shows %d groups, want %d: %q", len(ids), len(hostileNames), ids)
	}
}

// harmless says that no name on the page was taken for anything else.
func (w *world) harmless(path string) {
	w.t.Helper()
	var ill bool
	w.must(w.tab.Eval(`"pwned" in window || document.querySelector("main script, main img, [onerror], [onmouseover]") !== null || [...document.links].some((a) => a.origin !== location.origin) || location.host !== "`+strings.TrimPrefix(w.url, "http://")+`"`, &ill))
	if ill {
		w.t.Errorf("on %s a name has done something", path)
	}
}

// TestTenThousandInstances: the fleet and the list of a group hold few elements, and follow changes.
func TestTenThousandInstances(t *testing.T) {
	const many = 10_000
	s := stage.New("../../..", stage.Large(many), map[string]stage.Object{"/api/console/session": stage.Session()})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	w := &world{t: t, url: server.URL}
	w.open(server.URL)
	w.see("All 10,000 machines are running.")
	var elements int
	w.must(w.tab.Eval(`document.querySelectorAll("*").length`, &elements))
	if elements > many/10 {
		t.Errorf("the fleet has %d elements for %d instances", elements, many)
	}
	var changed []stage.Object
	for n := range 1000 {
		changed = append(changed, stage.Instance(n*10, "unhealthy", 2))
	}
	s.Send(stage.Event{Name: "instances", Data: stage.Object{"shard": stage.Shard, "instances": changed}})
	w.see("9,000 of 10,000 machines running: 1,000 unhealthy.")
	w.visit("/groups/"+stage.Shard+"/acme/group-003", "500 instances", "Settings")
	w.must(w.tab.Eval(`document.querySelectorAll("[role=row]").length`, &elements))
	if elements > 200 {
		t.Errorf("the list has %d rows in the page", elements)
	}
	w.must(w.tab.Eval(`scrollTo(0, document.body.scrollHeight)`, nil))
	w.see(stage.ID(1999))
}
