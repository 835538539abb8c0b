//go:build console

package console_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/e2e/env/box"
)

// other returns an id like a given one, which no instance has.
func other(id string) string {
	at := len(id) - 3
	digit := "0"
	if id[at] == '0' {
		digit = "1"
	}
	return id[:at] + digit + id[at+1:]
}

// TestConsole has the quick cases, on one shard.
func TestConsole(t *testing.T) {
	w := up(t, 3)
	id := w.instances()[0]

	t.Run("every page opens by its address, with what the shard says", func(t *testing.T) {
		for _, page := range []struct {
			path  string
			words []string
		}{
			{"/", []string{"All 3 machines are running.", "web", box.Shard, "3"}},
			{"/groups/" + box.Shard + "/default/web", []string{"All 3 machines are running.", "Size over time", "Decisions", id}},
			{"/instances/" + box.Shard + "/" + id, []string{id, "It is running", "created", "registered", "Files and certificates", "Heard of"}},
			{"/shards", []string{"1 shard, each with a leader.", "Term", "Leader"}},
			{"/demand", []string{"No group is of mode demand."}},
			{"/machines", []string{"No host machine reports."}},
			{"/errors", []string{"Errors"}},
			{"/plan", []string{"See what a configuration would do."}},
			{"/nowhere", []string{"There is no such page"}},
			{"/groups/" + box.Shard + "/default/nothing", []string{"There is no group nothing"}},
			{"/instances/" + box.Shard + "/" + other(id), []string{"This instance is gone"}},
		} {
			w.t = t
			w.visit(page.path, page.words...)
			w.shoot(strings.ReplaceAll(strings.Trim(page.path, "/"), "/", "-") + "-page")
		}
		// The answer that an instance does not exist is logged by the browser itself.
		errors := slices.DeleteFunc(w.tab.Errors(), func(e string) bool { return strings.Contains(e, "status of 404") })
		if len(errors) > 0 {
			t.Errorf("pages had errors:\n%s", strings.Join(errors, "\n"))
		}
	})

	t.Run("axe finds nothing serious on any page in both schemes", func(t *testing.T) {
		w.t = t
		for _, scheme := range []string{"light", "dark"} {
			w.must(w.tab.Scheme(scheme))
			for path, word := range map[string]string{
				"/": "running", "/groups/" + box.Shard + "/default/web": "Settings", "/instances/" + box.Shard + "/" + id: "Decisions about it",
				"/shards": "Term", "/demand": "demand", "/machines": "machine", "/errors": "wrong", "/plan": "Paste",
			} {
				w.visit(path, word, "live")
				found, err := w.tab.Serious()
				w.must(err)
				for _, v := range found {
					t.Errorf("%s, %s: %v", path, scheme, v)
				}
			}
		}
		w.must(w.tab.Press("?"))
		w.see("Keys and marks")
		found, err := w.tab.Serious()
		w.must(err)
		for _, v := range found {
			t.Errorf("the help: %v", v)
		}
	})

	t.Run("the keyboard reaches everything", func(t *testing.T) {
		w.t = t
		w.visit("/", "All 3 machines are running.")
		w.must(w.tab.Press("gs"))
		w.see("1 shard, each with a leader.")
		w.must(w.tab.Press("gg"))
		w.see("All 3 machines are running.")
		w.must(w.tab.Press("/"))
		w.see("Plan a configuration") // what is found without a word
		w.must(w.tab.Press(id))
		w.see(id)
		w.must(w.tab.Press("\r"))
		w.see("Decisions about it")
		var where string
		w.must(w.tab.Eval(`location.pathname`, &where))
		if want := "/instances/" + box.Shard + "/" + id; where != want {
			t.Errorf("the search led to %s, want %s", where, want)
		}
		w.visit("/", "What happens", "live") // anew: the focus is nowhere yet
		// The order of the focus: first the way past the frame, then the frame from its top.
		want := []string{"Skip to the page", "Nstance, fleet", "Search /", "Fleet", "Shards", "Demand", "Host machines", "Errors", "Plan"}
		for _, name := range want {
			w.must(w.tab.Press("\t"))
			var got string
			w.must(w.tab.Eval(`(document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent).trim()`, &got))
			if !strings.HasPrefix(got, name) {
				t.Errorf("the focus is at %q, want %q", got, name)
			}
		}
		w.clean()
	})

	t.Run("the switch of the colours wins over the system", func(t *testing.T) {
		w.t = t
		w.must(w.tab.Scheme("light"))
		w.visit("/", "live")
		theme := func() (name string) {
			w.must(w.tab.Eval(`document.documentElement.dataset.theme`, &name))
			return name
		}
		if got := theme(); got != "light" {
			t.Errorf("on a light system the page is %s", got)
		}
		w.must(w.tab.Press("t"))
		if got := theme(); got != "dark" {
			t.Errorf("after the switch the page is %s", got)
		}
		w.visit("/shards", "live")
		if got := theme(); got != "dark" {
			t.Errorf("after another page the switch is forgotten: %s", got)
		}
		w.must(w.tab.Press("tt"))
	})

	t.Run("read-only there is nothing to press that changes anything", func(t *testing.T) {
		w.t = t
		w.visit("/groups/"+box.Shard+"/default/web", "Settings", "read-only")
		var buttons int
		w.must(w.tab.Eval(`document.querySelectorAll(".actions button").length`, &buttons))
		if buttons != 0 {
			t.Errorf("there are %d buttons of actions", buttons)
		}
		w.clean()
	})

	t.Run("a killed machine is seen being replaced", func(t *testing.T) {
		w.t = t
		w.visit("/", "All 3 machines are running.")
		victim := w.box.Machines()[0]
		w.must(victim.Signal(unix.SIGKILL))
		w.must(w.tab.Until(patience, func(text string) bool {
			return strings.Contains(text, "leaves: it was unhealthy") || strings.Contains(text, "is being created")
		}, "that the machine is replaced"))
		w.see("All 3 machines are running.", "is being created")
		w.visit("/groups/"+box.Shard+"/default/web", "create", "All 3 machines are running.")
		w.clean()
	})

	t.Run("after a restart of the server the page goes on by itself", func(t *testing.T) {
		w.t = t
		w.visit("/", "live")
		w.dev.Kill()
		w.see("does not answer")
		w.shoot("unreachable")
		w.dev = w.box.Dev(3)
		w.must(w.tab.Until(2*patience, func(text string) bool {
			return strings.Contains(text, "All 3 machines are running.") && !strings.Contains(text, "does not answer")
		}, "that the shard is back"))
	})
}

// TestTheConsoleEndsAndIsOpenedAnew: the page says that its server is gone, keeps what it shows, and
// a new address leads on.
func TestTheConsoleEndsAndIsOpenedAnew(t *testing.T) {
	w := up(t, 1)
	w.see("The machine is running.")
	w.web.Kill()
	w.see("The link to the console's server broke", "The machine is running.", "reconnecting")
	w.start("--bind", strings.TrimPrefix(w.url, "http://"))
	w.see("The machine is running.")
}

// TestActions: with --allow-actions a group is scaled and an instance deleted, after a question that
// names what ends.
func TestActions(t *testing.T) {
	w := up(t, 2, "--allow-actions")
	w.visit("/groups/"+box.Shard+"/default/web", "Scale…", "Pause…")
	w.must(w.tab.Click(".actions button"))
	w.see("Size, now 2")
	w.must(w.tab.Eval(`document.querySelector("dialog input").select()`, nil))
	w.must(w.tab.Press("1"))
	w.see("End 1 machine", "will be drained and deleted")
	w.must(w.tab.Eval(`document.querySelector("dialog input").select()`, nil))
	w.must(w.tab.Press("3"))
	w.see("1 machine will be created.")
	w.must(w.tab.Press("\r"))
	w.see("All 3 machines are running.")
	id := w.instances()[0]
	w.visit("/instances/"+box.Shard+"/"+id, "Replace…", "Delete…")
	w.must(w.tab.Click(".actions .danger-quiet"))
	w.see("Another one takes its place.", id)
	w.must(w.tab.Click("dialog button[type=submit]"))
	w.must(w.tab.Until(patience, func(text string) bool {
		return strings.Contains(text, "somebody asked for it") || strings.Contains(text, "It is gone") || strings.Contains(text, "This instance is gone")
	}, "that the instance leaves"))
	w.box.Await("another one takes its place", func() error { return w.box.Settled("web", 3, time.Time{}) })
	w.clean()
}
