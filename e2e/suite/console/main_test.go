//go:build console

package console_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/browser"
)

var shots = flag.String("screenshots", "", "`directory` that pictures of the pages are written to")

// patience is how long a page may take to show something, on a busy box.
const patience = 45 * time.Second

// chromium is started once: each tab has a browsing context of its own.
var chromium *browser.Browser

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if chromium, err = browser.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	chromium.Close()
	os.Exit(code)
}

// world is a shard on this box, with its console in a browser.
type world struct {
	t   *testing.T
	box *box.Box
	dev *box.Process
	web *box.Process
	tab *browser.Tab
	url string // of the console, without a token and without a slash at its end
}

// up starts a shard with a group `web` of so many machines, and opens its console.
func up(t *testing.T, size int, flags ...string) *world {
	t.Helper()
	b := box.New(t)
	b.Configure(size, 5*time.Second)
	w := &world{t: t, box: b, dev: b.Dev(size)}
	b.Await("the machines report", func() error { return b.Settled("web", size, time.Time{}) })
	w.start(flags...)
	return w
}

var printed = regexp.MustCompile(`console: (http://[^/\s]+)(/\?token=\S+)`)

// start starts the console and opens it in a new tab.
func (w *world) start(flags ...string) {
	w.t.Helper()
	args := append([]string{"console", "--context", w.box.ContextPath()}, flags...)
	w.web = w.box.Start("nstance-admin", args...)
	w.open(w.address())
}

// address awaits the address that the console prints.
func (w *world) address() (login string) {
	w.t.Helper()
	w.box.Await("the console prints its address", func() error {
		all := printed.FindAllStringSubmatch(w.web.Output(), -1)
		if len(all) == 0 {
			return fmt.Errorf("it has printed %q", w.web.Output())
		}
		last := all[len(all)-1]
		w.url, login = last[1], last[1]+last[2]
		return nil
	})
	return login
}

// open opens an address in a new tab, and awaits that the page is live.
func (w *world) open(address string) {
	w.t.Helper()
	var err error
	if w.tab, err = chromium.Open(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.tab.Close)
	w.must(w.tab.Go(address))
	w.see("live")
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// see awaits words on the page.
func (w *world) see(words ...string) {
	w.t.Helper()
	w.must(w.tab.Await(patience, words...))
}

// visit goes to a page by its address, as a deep link does.
func (w *world) visit(path string, words ...string) {
	w.t.Helper()
	w.must(w.tab.Go(w.url + path))
	w.see(words...)
}

// clean says that nothing went wrong in the page: no exception, no breach of its policy.
func (w *world) clean() {
	w.t.Helper()
	if errors := w.tab.Errors(); len(errors) > 0 {
		w.t.Errorf("the page had errors:\n%s", strings.Join(errors, "\n"))
	}
}

// shoot writes a picture of the page, where pictures are wanted.
func (w *world) shoot(name string) {
	w.t.Helper()
	if *shots == "" {
		return
	}
	png, err := w.tab.Screenshot()
	w.must(err)
	w.must(os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o600))
}

// instances are the ids of the machines that run.
func (w *world) instances() (ids []string) {
	w.t.Helper()
	all, err := w.box.Instances()
	w.must(err)
	for _, i := range all {
		if i.GetStatus() == "running" {
			ids = append(ids, i.GetInstanceId())
		}
	}
	return ids
}
