//go:build console

package console_test

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"text/template"
	"time"

	"nstance.dev/e2e/env/box"
)

var recording = flag.String("recording", "", "`directory` of the docs that the recording of the first five minutes is written to")

// promised is how long a newcomer takes, from when the programs are built.
const promised = 5 * time.Minute

// newcomer is somebody who has built the programs, has the README before him, and terminals and a
// browser open. His clone is a directory with the programs alone.
type newcomer struct {
	*world
	commands    []string // of the README's first section, in order
	clone       string
	first, next *terminal
	export      string    // the command that all terminals but the first one begin with
	watch       *terminal // in which events are watched
	top         string    // what `nstance-admin top` showed
}

// TestTheFirstFiveMinutes: with the commands of the README alone, as they stand there, machines run, are seen
// live in the console, one is killed, and why and when it was replaced is seen, and a group is scaled.
func TestTheFirstFiveMinutes(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	n := &newcomer{world: &world{t: t}, commands: readmeCommands(t, root)}
	n.clone = t.TempDir()
	programs, err := filepath.Abs(filepath.Join(root, "bin"))
	n.must(err)
	for _, name := range []string{"nstance-server-local", "nstance-agent", "nstance-admin"} {
		box.Program(t, name)
	}
	n.must(os.Symlink(programs, filepath.Join(n.clone, "bin")))
	n.first, n.next = openTerminal(t, n.clone), openTerminal(t, n.clone)
	began := time.Now()
	t.Cleanup(func() { n.end() })
	done := map[string]bool{}
	for _, command := range n.commands {
		did := false
		for _, step := range n.steps(root) {
			if strings.HasPrefix(command, step.command) {
				t.Logf("after %v: %s", time.Since(began).Round(time.Second), command)
				step.take(command)
				did, done[step.command] = true, true
				break
			}
		}
		if !did {
			t.Errorf("the README has a command that no newcomer was seen to give: %s", command)
		}
	}
	took := time.Since(began)
	t.Logf("measured: a newcomer's first look after %v", took.Round(time.Second))
	if took > promised {
		t.Errorf("the first look took %v, and %v are promised", took, promised)
	}
	for _, step := range n.steps(root) {
		if !done[step.command] {
			t.Errorf("the README does not say: %s", step.command)
		}
	}
	n.record(took)
}

// step is what a newcomer does with a command.
type step struct {
	command string // how it begins
	take    func(command string)
}

func (n *newcomer) steps(root string) []step {
	group := "/groups/" + box.Shard + "/default/web"
	return []step{
		{"make dev", func(command string) {
			n.first.types(recipe(n.t, root, command)) // all is built already
			n.first.shows("3 running", "console: http://")
			address := printed.FindStringSubmatch(n.first.screen())
			if address == nil {
				n.t.Fatalf("there is no address:\n%s", n.first.screen())
			}
			n.url = address[1]
			n.open(address[1] + address[2])
			n.see("All 3 machines are running.", "web")
			n.picture("live")
		}},
		{"make test", func(string) {}}, // it is for those who change something
		{"export ", func(command string) {
			n.export = command
			n.next.types(command)
			n.next.prompts()
		}},
		{"bin/nstance-admin instance list", func(command string) {
			n.next.types(command)
			n.next.answers(command, "running")
			n.next.prompts()
		}},
		{"bin/nstance-admin group scale web 5 --wait", func(command string) {
			n.next.types(command)
			n.see("All 5 machines are running.")
			n.next.prompts()
		}},
		{"bin/nstance-admin instance watch", func(command string) {
			n.watch = openTerminal(n.t, n.clone) // it goes on
			n.watch.types(n.export)
			n.watch.types(command)
		}},
		{"kill -9", func(command string) {
			n.next.types(command)
			n.next.prompts()
			n.must(n.tab.Until(patience, func(text string) bool { return strings.Contains(text, "leaves: it was unhealthy") }, "why the machine leaves"))
			n.see("All 5 machines are running.", "is being created")
			n.watch.shows("registered") // the new one, last
			n.picture("killed")
		}},
		{"bin/nstance-admin group explain web", func(command string) {
			n.next.types(command)
			n.next.answers(command, "condemn", "create")
			n.next.prompts()
			n.visit(group, "All 5 machines are running.", "Decisions", "condemn", "create")
			n.picture("why")
		}},
		{"bin/nstance-admin top", func(command string) {
			n.next.types(command)
			n.next.shows("running 5 of 5", "web")
			n.top = n.next.screen()
			n.next.press("q")
			n.next.prompts()
		}},
	}
}

// end stops the cluster, as the README says.
func (n *newcomer) end() {
	n.first.press("C-c")
	n.first.prompts()
	if left, _ := filepath.Glob(filepath.Join(n.clone, ".dev", "machines", "*", "pid")); len(left) > 0 {
		n.t.Errorf("machines are left: %v", left)
	}
}

// readmeCommands are those of the README's section for newcomers, without their comments.
func readmeCommands(t *testing.T, root string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Try it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	comment := regexp.MustCompile(`\s+#.*$`)
	shell := false // within a block of it
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			shell = line == "```sh"
		case shell && line != "":
			commands = append(commands, comment.ReplaceAllString(line, ""))
		}
	}
	if len(commands) == 0 || !strings.HasPrefix(commands[0], "make dev") {
		t.Fatalf("the README begins with %q", commands)
	}
	return commands
}

// recipe is what make would run last for a target: what is before it builds.
func recipe(t *testing.T, root, command string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-n", "-C", root, strings.TrimPrefix(command, "make ")).Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// picture keeps what the browser shows for the page, where it is recorded.
func (n *newcomer) picture(name string) {
	n.t.Helper()
	if *recording == "" {
		return
	}
	png, err := n.tab.Screenshot()
	n.must(err)
	n.must(os.MkdirAll(filepath.Join(*recording, "first-look"), 0o700))
	n.must(os.WriteFile(filepath.Join(*recording, "first-look", name+".png"), png, 0o600))
}

//go:embed testdata/first-look.md.tmpl
var firstLook string

// record writes the page with the recording.
func (n *newcomer) record(took time.Duration) {
	n.t.Helper()
	if *recording == "" || n.t.Failed() {
		return
	}
	trim := func(text string) string {
		var out strings.Builder
		for line := range strings.Lines(strings.ReplaceAll(text, n.clone, "/home/you/nstance")) {
			fmt.Fprintln(&out, strings.TrimRight(line, " \n"))
		}
		return strings.TrimSpace(out.String())
	}
	var page bytes.Buffer
	n.must(template.Must(template.New("page").Parse(firstLook)).Execute(&page, map[string]any{
		"Took": took.Round(time.Second).String(), "Processors": runtime.NumCPU(), "Dev": trim(printed.ReplaceAllString(n.first.screen(), "console: $1/?token=…")), "Terminal": trim(n.next.all()), "Top": trim(n.top), "Watch": trim(n.watch.all()),
		"Columns": columns, "Rows": rows, "Date": n.first.began.UTC().Format(time.DateOnly),
	}))
	n.must(os.WriteFile(filepath.Join(*recording, "first-look.md"), page.Bytes(), 0o600))
	n.must(os.WriteFile(filepath.Join(*recording, "first-look", "terminal.cast"), n.next.cast("Nstance: the first look"), 0o600))
}
