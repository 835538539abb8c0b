//go:build console

package console_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/leak"
	"nstance.dev/protos/identity"
)

// TestS12_ATenantSeesNothingOfAnother: on no page of the console, in no answer of the API and on no stream is
// a mark of another tenant, whether its operator looks around, asks for what is not its own, or
// listens while the other tenant is busy. That the same looks show a tenant all that is its own
// says that they would show what is another's.
func TestS12_ATenantSeesNothingOfAnother(t *testing.T) {
	s := newMarkedShard(t)
	for i, p := range s.parties {
		other := s.parties[1-i]
		search := leak.New()
		search.Mark("the mark of "+other.mark, []byte(other.mark))
		for _, id := range append(slices.Clone(other.ids), other.lost) {
			search.Mark("instance "+id, []byte(id))
		}
		for _, caller := range []*caller{p.viaConsole(), p.viaAPI()} {
			found := func(place, text string) {
				t.Helper()
				for _, f := range search.Look(caller.name+": "+place, []byte(text)) {
					t.Errorf("%s\n%.2000s", f, text)
				}
			}
			answers := caller.lookAround(p)
			whole := strings.Join(slices.Collect(maps.Values(answers)), "\n")
			for _, what := range answered {
				if !strings.Contains(whole, p.named(what)) {
					t.Errorf("%s: looking around does not show %s, so it says nothing of others", caller.name, p.named(what))
				}
			}
			for _, id := range p.ids {
				if !strings.Contains(whole, id) {
					t.Errorf("%s: looking around does not show instance %s", caller.name, id)
				}
			}
			for place, text := range answers {
				found(place, text)
			}
			caller.askFor(p, other)
			for place, text := range caller.listen(p, other) {
				found(place, text)
			}
			t.Logf("%s: %d places, %d bytes looked at", caller.name, search.Places, search.Bytes)
		}
		s.pages(p, other, search)
		s.unharmed(other)
	}
}

// unharmed: what was asked for has not been done.
func (s *markedShard) unharmed(p *party) {
	s.t.Helper()
	list, err := p.instances()
	s.must(err)
	for _, in := range list {
		if slices.Contains(p.ids, in.GetInstanceId()) && in.GetCondemned() != nil {
			s.t.Errorf("instance %s of %s is to go: %v", in.GetInstanceId(), p.mark, in.GetCondemned())
		}
	}
	s.must(s.unmanaged())
}

// operation is an operation of the API's document.
type operation struct{ method, path string }

func (o operation) String() string { return strings.ToUpper(o.method) + " " + o.path }

// onItsOwn is whether an operation reads what a name says, though it is no GET.
func (o operation) onItsOwn() bool {
	return o.method == "post" && (strings.HasSuffix(o.path, ":output") || strings.HasSuffix(o.path, "/config:plan"))
}

// lookAround reads whatever may be read, by the names of a party, and returns the answers by place.
func (c *caller) lookAround(p *party) map[string]string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	demand, err := p.api.GetDemand(ctx, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	groups := []string{p.named("fixed"), p.named("full"), p.named("pool"), p.named("made")}
	names := map[string][]string{
		"{shard}": {box.Shard}, "{group}": groups, "{key}": groups, "{instanceId}": p.ids, "{tenant}": {p.named("tenant")}, "{id}": {p.named("operation")},
	}
	answers := map[string]string{}
	ask := func(o operation, path, body string) bool {
		status, text := c.do(ctx, o.method, path, body)
		answers[o.method+" "+path] = text
		return status == http.StatusOK
	}
	for _, o := range c.operations() {
		if o.method != "get" && !o.onItsOwn() || strings.Contains(o.path, "/watch/") {
			continue
		}
		body := ""
		switch {
		case strings.HasSuffix(o.path, "/config:plan"):
			body = `{"config":"e30="}` // without anybody's groups
		case o.method == "post":
			body = "{}"
		}
		read := false
		for _, path := range filled(o.path, names) {
			read = ask(o, path, body) || read
		}
		if !read && !c.shut(o) {
			c.t.Errorf("%s: %v was not read by any of the tenant's own names: %v", c.name, o, answers[o.method+" "+filled(o.path, names)[0]])
		}
	}
	get := operation{"get", ""}
	below := "/v1/shards/" + box.Shard
	for _, need := range demand.GetNeeds() {
		ask(get, below+"/demand?need="+need.GetId()[:12], "")
	}
	ask(get, below+"/instances?pageSize=1", "")
	ask(get, below+"/instances?pageSize=1&pageToken="+url.QueryEscape(strings.Repeat("\x00", 3)), "")
	if c.console {
		for _, group := range groups {
			ask(get, "/console/history?shard="+box.Shard+"&group="+group, "")
		}
		ask(get, "/console/session", "")
	}
	return answers
}

// shut is whether an operation is not for this caller: of the paths of the specification's admin page the
// console has none, and what concerns a whole shard or cluster is for its administrators; the sleep of tenants is not offered.
func (c *caller) shut(o operation) bool {
	return c.console && !strings.HasPrefix(o.path, "/v1/") && o.path != "/openapi.json" || strings.HasSuffix(o.path, "/config:plan") ||
		strings.HasSuffix(o.path, "/unmanaged") || strings.HasSuffix(o.path, "/tenants/{tenant}")
}

// filled are a path's forms with each of the names in the place of its parameters.
func filled(path string, names map[string][]string) []string {
	for parameter, all := range names {
		if before, after, has := strings.Cut(path, parameter); has {
			var out []string
			for _, name := range all {
				out = append(out, filled(before+name+after, names)...)
			}
			return out
		}
	}
	return []string{path}
}

// bodies are what calls are sent that take one, with NAME for what they are about, by the end of their path.
var bodies = map[string]string{
	"/groups/{key}": `{"config":{"size":0}}`, "/groups/{key}:check": `{"config":{"size":0}}`, "/groups:confirm": `{"keys":["NAME"]}`,
	"/instances": `{"config":{"group":"NAME"}}`, ":drained": `{"forced":true}`, ":output": `{}`, "/hold": `{"reason":"power"}`,
	"/assignment":   `{"assignment":{"machineName":"m","machineUid":"u","epoch":"2","mode":"MACHINE_MODE_RESET","nodeName":"n"}}`,
	"/node:confirm": `{"epoch":"1","nodeUid":"u","bootId":"b"}`, "/prebuild": `{}`, "/operations": `{"id":"mine","instanceId":"NAME","name":"powerOff"}`,
	"/pauses": `{"scope":"group","group":"NAME","reason":"r"}`, "/pauses:clear": `{"scope":"group","group":"NAME"}`, ":adopt": `{}`, "/group/scale": `{"group":"NAME","size":0}`,
}

// askFor asks for what another party has and for what nobody has, with every operation that takes a name:
// the answers must be alike.
func (c *caller) askFor(p, other *party) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	nobodys, err := identity.NewID(other.kind)
	if err != nil {
		c.t.Fatal(err)
	}
	group, instance := [2]string{other.named("made"), "nobodys-group"}, [2]string{other.ids[len(other.ids)-1], nobodys.String()}
	kinds := map[string][2]string{
		"{group}": group, "{key}": group, "{instanceId}": instance, "{tenant}": {other.named("tenant"), "nobodys"}, "{id}": {other.named("operation"), "nobodys"},
		"{providerInstanceId}": {other.lost, nobodys.String()},
	}
	asked := 0
	for _, o := range c.operations() {
		body := ""
		for end, text := range bodies {
			if strings.HasSuffix(o.path, end) && o.method != "get" && o.method != "delete" {
				body = text
			}
		}
		names, taken := [2]string{}, false
		for parameter, pair := range kinds {
			if strings.Contains(o.path, parameter) {
				names, taken = pair, true
			}
		}
		if !taken && strings.Contains(body, "NAME") {
			names, taken = group, true
			if strings.Contains(body, "instanceId") {
				names = instance
			}
		}
		if !taken {
			continue
		}
		asked++
		var said [2]string
		for i, name := range names {
			all := map[string][]string{"{shard}": {box.Shard}}
			for parameter := range kinds {
				all[parameter] = []string{name}
			}
			status, text := c.do(ctx, o.method, filled(o.path, all)[0], strings.ReplaceAll(body, "NAME", name))
			said[i] = fmt.Sprint(status, " ", strings.ReplaceAll(text, name, "NAME"))
		}
		if said[0] != said[1] {
			c.t.Errorf("%s: %v about what is another tenant's\n%s\nand about what is nobody's\n%s", c.name, o, said[0], said[1])
		}
	}
	if asked < 20 {
		c.t.Errorf("%s: only %d operations take a name", c.name, asked)
	}
}

// listen opens every stream while both parties are busy, and returns what came on each once the one
// whose streams they are has heard of itself on all of them.
func (c *caller) listen(p, other *party) map[string]string {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var streams []string
	for _, o := range c.operations() {
		if strings.Contains(o.path, "/watch/") {
			streams = append(streams, filled(o.path, map[string][]string{"{shard}": {box.Shard}})[0])
		}
	}
	if c.console {
		streams = append(streams, "/console/events")
	}
	var listening sync.WaitGroup
	all := map[string]*heard{}
	for _, path := range streams {
		h := &heard{}
		all[path] = h
		listening.Go(func() { c.follow(ctx, path, h) })
	}
	defer listening.Wait()
	defer cancel()
	for round := range 3 {
		for _, busy := range []*party{p, other} {
			if err := busy.stir(round); err != nil {
				c.t.Errorf("%s is not busy: %v", busy.mark, err)
			}
		}
	}
	p.s.box.Await(c.name+" has heard of its own tenant on every stream", func() error {
		for path, h := range all {
			text := h.text()
			if !strings.Contains(text, p.mark) && !slices.ContainsFunc(p.ids, func(id string) bool { return strings.Contains(text, id) }) {
				return fmt.Errorf("on %s: %.500s", path, text)
			}
		}
		return nil
	})
	// The other party's last change was before this one of the own, which comes after it on each stream.
	if err := p.stir(99); err != nil {
		c.t.Error(err)
	}
	last := p.named("stirred-") + "99"
	p.s.box.Await(c.name+" has heard of the last change", func() error {
		for path, h := range all {
			if (strings.HasSuffix(path, "/groups") || strings.HasSuffix(path, "/events")) && !strings.Contains(h.text(), last) {
				return fmt.Errorf("not on %s", path)
			}
		}
		return nil
	})
	out := map[string]string{}
	for path, h := range all {
		out[path] = h.text()
	}
	whole := strings.Join(slices.Collect(maps.Values(out)), "\n")
	for _, what := range streamed {
		if !strings.Contains(whole, p.named(what)) {
			c.t.Errorf("%s: no stream tells of %s, so they say nothing of others", c.name, p.named(what))
		}
	}
	return out
}

// heard is what has come on a stream so far.
type heard struct {
	mu   sync.Mutex
	said strings.Builder
}

func (h *heard) Write(data []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.Write(data)
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.String()
}

// follow copies a stream until ctx ends.
func (c *caller) follow(ctx context.Context, path string, to io.Writer) {
	answer, err := c.send(ctx, "get", path, "")
	if err != nil {
		fmt.Fprintln(to, err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(to, answer.Body) // it ends when ctx does
}

// pages opens every page of a party's console, and those of what is another's.
func (s *markedShard) pages(p, other *party, search *leak.Search) {
	s.t.Helper()
	w := &world{t: s.t, box: s.box}
	w.web = s.box.Start("nstance-admin", append([]string{"console"}, p.as()...)...)
	w.open(w.address())
	s.must(p.stir(0))
	s.must(other.stir(0))
	var whole strings.Builder
	look := func(path string, words ...string) (html string) {
		w.visit(path, append(words, "live")...)
		w.must(w.tab.Eval(`document.documentElement.outerHTML`, &html))
		return html
	}
	own := "/groups/" + box.Shard + "/" + p.named("tenant") + "/"
	for path, word := range map[string]string{
		"/": p.named("fixed"), own + p.named("fixed"): "Settings", own + p.named("made"): p.named("pause"), own + p.named("pool"): "Settings",
		"/instances/" + box.Shard + "/" + p.ids[0]: "Decisions about it", "/shards": "Term", "/demand": p.named("need"), "/machines": p.named("machine"),
		"/errors": "since the console began", "/plan": "Paste",
	} {
		html := look(path, word)
		whole.WriteString(html)
		for _, f := range search.Look("page "+path, []byte(html)) {
			s.t.Error(f)
		}
	}
	for _, what := range []string{"fixed", "full", "pool", "made", "pause", "need", "machine"} {
		if !strings.Contains(whole.String(), p.named(what)) {
			s.t.Errorf("no page shows %s, so they say nothing of others", p.named(what))
		}
	}
	foreign := "/groups/" + box.Shard + "/" + other.named("tenant") + "/"
	for path, word := range map[string]string{
		foreign + other.named("fixed"): "There is no group", "/instances/" + box.Shard + "/" + other.ids[0]: "This instance is gone",
	} {
		html := look(path, word)
		for _, name := range []string{other.named("tenant"), other.named("fixed"), other.ids[0]} {
			html = strings.ReplaceAll(html, name, "") // it was asked for by its name
		}
		for _, f := range search.Look("page "+path, []byte(html)) {
			s.t.Error(f)
		}
	}
}
