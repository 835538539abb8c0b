package sources_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/filesync/sources"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/secrets"
)

// house is where the sources of a test read from.
type house struct {
	*sources.Sources
	t       *testing.T
	objects *memory.Store
	secrets secrets.Store
	calls   map[string]int
	mu      sync.Mutex
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, objects: memory.New(memory.Options{}), calls: map[string]int{}}
	h.objects.SetFaults(func(c memory.Call) memory.Fault {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls[string(c.Op)+" "+c.Key]++
		return memory.Fault{Latency: 10 * time.Millisecond}
	})
	key, err := secrets.ParseKeys(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := secrets.NewSealed(h.objects, "secret/", key)
	if err != nil {
		t.Fatal(err)
	}
	h.secrets = sealed
	h.Sources = sources.New(sources.Options{
		Objects: h.objects, Secrets: func() secrets.Store { return h.secrets }, From: func() layout.FileSources { return layout.FileSources{} },
	})
	return h
}

func (h *house) count(call string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[call]
}

// forget sets the counts of calls back.
func (h *house) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.calls)
}

func (h *house) secret(name, value string) {
	h.t.Helper()
	if err := h.secrets.Put(h.t.Context(), name, secrets.Secret(value), secrets.Overwrite); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) object(key, value string) {
	h.t.Helper()
	etag := ""
	if o, err := h.objects.Get(h.t.Context(), key); err == nil {
		etag = o.ETag
	}
	if _, err := objectstore.Put(h.t.Context(), h.objects, key, []byte(value), etag, objectstore.RetryPolicy{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) get(r sources.Request) string {
	h.t.Helper()
	c, err := h.Content(h.t.Context(), r)
	if err != nil {
		h.t.Errorf("file %s: %v", r.Name, err)
	}
	if sum := sha256.Sum256(c.Data); err == nil && c.Digest != string(sum[:]) {
		h.t.Errorf("file %s: the digest is not that of the content", r.Name)
	}
	return string(c.Data)
}

func (h *house) version(r sources.Request) string {
	h.t.Helper()
	v, err := h.Version(h.t.Context(), r)
	if err != nil {
		h.t.Errorf("file %s: %v", r.Name, err)
	}
	return v
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// request is one for the machine of this number.
func request(machine int, f document.File) sources.Request {
	data := texttemplate.Sample(map[string]string{"role": "web"}, nil)
	data.Instance.ID = fmt.Sprint("machine-", machine)
	return sources.Request{Name: fmt.Sprintf("%s-%v", f.Kind, f.Template), File: f, Hash: "h1", Data: data}
}

var (
	token = document.File{Kind: document.FileSecret, Source: "token"}
	motd  = document.File{Kind: document.FileStorage, Source: "files/{{ .Vars.role }}/motd"}
	own   = document.File{Kind: document.FileStorage, Source: "files/{{ .Instance.ID }}"}
)

const marked = "hunter2-is-not-to-be-seen"

// in runs a test in a bubble, with a house.
func in(t *testing.T, test func(*testing.T, *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHouse(t)) })
}

func TestContentOfEachKind(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.secret("token", marked)
		h.object("files/web/motd", "welcome\x00")
		h.object("files/machine-7", "seven")
		for _, tt := range []struct {
			file document.File
			want string
		}{
			{document.File{Kind: document.FileEnv, Template: map[string]any{"ROLE": "{{ .Vars.role }}", "ID": "{{ .Instance.ID }}"}}, "ID=machine-7\nROLE=web\n"},
			{document.File{Kind: document.FileJSON, Template: map[string]any{"role": "{{ .Vars.role }}"}}, "{\n  \"role\": \"web\"\n}\n"},
			{document.File{Kind: document.FileString, Template: "{{ .Instance.ID }}"}, "machine-7"},
			{token, marked},
			{motd, "welcome\x00"},
			{own, "seven"},
		} {
			if got := h.get(request(7, tt.file)); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.file.Kind, got, tt.want)
			}
		}
	})
}

func TestS14_ErrorsNameTheFileAndNoContent(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.object("files/large", marked+strings.Repeat("x", sources.MaxSize))
		h.object("files/nothere.longer", "x")
		h.object("secret/raw", marked)
		h.forget()
		for _, tt := range []struct {
			name string
			file document.File
			says string
			is   error
		}{
			{"no such secret", document.File{Kind: document.FileSecret, Source: "none"}, `secret "none"`, secrets.ErrNotFound},
			{"a key of the cluster", document.File{Kind: document.FileSecret, Source: "ca.key"}, "ca.key", nil},
			{"a secret that nobody sealed", document.File{Kind: document.FileSecret, Source: "raw"}, `secret "raw"`, secrets.ErrUnreadable},
			{"no such object", document.File{Kind: document.FileStorage, Source: "files/nothere"}, `object "files/nothere"`, objectstore.ErrNotFound},
			{"an object that is too large", document.File{Kind: document.FileStorage, Source: "files/large"}, "larger than 3145728 bytes", nil},
			{"an object of the servers", document.File{Kind: document.FileStorage, Source: "secret/token"}, `belongs to the servers`, layout.ErrReserved},
			{"an object in another place", document.File{Kind: document.FileStorage, Source: "images/x"}, `"files/"`, nil},
			{"a variable that is missing", document.File{Kind: document.FileString, Template: "{{ .Vars.none }}"}, "none", nil},
			{"a certificate", document.File{Kind: document.FileCertificate, Template: "x"}, "certificate", nil},
		} {
			c, err := h.Content(t.Context(), request(1, tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%s: %d bytes, %v; want an error about %s", tt.name, len(c.Data), err, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: the error shows the content", tt.name)
			}
		}
		if n := h.count("get files/large"); n != 0 {
			t.Error("an object that is too large was read all the same")
		}
	})
}

// Many machines get one file: it is read, and rendered, once.
func TestManyMachinesShareOneContent(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.secret("token", "t1")
		h.object("files/web/motd", "welcome")
		h.forget()
		text := document.File{Kind: document.FileString, Template: "{{ .Vars.role }}"}
		var mu sync.Mutex
		shared := map[string]map[*byte]bool{}
		var all sync.WaitGroup
		for machine := range 100 {
			for _, f := range []document.File{token, motd, text} {
				all.Go(func() {
					c, err := h.Content(t.Context(), request(machine, f))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					if shared[f.Kind] == nil {
						shared[f.Kind] = map[*byte]bool{}
					}
					shared[f.Kind][&c.Data[0]] = true
				})
			}
		}
		all.Wait()
		for kind, copies := range shared {
			if len(copies) != 1 && kind != document.FileString { // several may render at once, before one is kept
				t.Errorf("%s: %d copies", kind, len(copies))
			}
		}
		if s, o := h.count("get secret/token"), h.count("get files/web/motd"); s != 1 || o != 1 {
			t.Errorf("the secret was read %d times, the object %d times", s, o)
		}
		c1, err1 := h.Content(t.Context(), request(1, text))
		c2, err2 := h.Content(t.Context(), request(2, text))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if &c1.Data[0] != &c2.Data[0] {
			t.Error("a text that does not look at the instance was rendered twice")
		}
	})
}

func TestWhatLooksAtTheInstanceIsNotShared(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		f := document.File{Kind: document.FileString, Template: "{{ .Instance.ID }}"}
		if a, b := h.get(request(1, f)), h.get(request(2, f)); a != "machine-1" || b != "machine-2" {
			t.Errorf("got %q and %q", a, b)
		}
		other := request(1, document.File{Kind: document.FileString, Template: "{{ .Vars.role }}"})
		first := h.get(other)
		other.Hash, other.Data.Vars = "h2", map[string]string{"role": "db"}
		if second := h.get(other); first != "web" || second != "db" {
			t.Errorf("got %q and %q", first, second)
		}
	})
}

func TestAChangeIsSeenWithinAMinute(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.secret("token", "t1")
		before := h.get(request(1, token))
		h.secret("token", "t2")
		time.Sleep(time.Minute)
		if got := h.get(request(2, token)); before != "t1" || got != "t2" {
			t.Errorf("got %q, then %q", before, got)
		}
	})
}

// What changes without a change of the configuration is noticed by looking.
func TestRefreshFindsWhatHasChanged(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.secret("token", "t1")
		h.object("files/web/motd", "m1")
		if v := h.version(request(1, token)); v != digestOf("t1") {
			t.Error("the version is not the digest of the content")
		}
		h.version(request(1, motd))
		look := func(want uint64) {
			t.Helper()
			time.Sleep(time.Hour)
			before := h.Epoch()
			if err := h.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			if n := h.Epoch() - before; n != want {
				t.Errorf("the epoch moved by %d, want %d", n, want)
			}
		}
		reads := h.count("get files/web/motd")
		look(0)
		if n := h.count("get files/web/motd"); n != reads {
			t.Error("an object that has its etag was read again")
		}
		h.secret("token", "t2")
		look(1)
		h.object("files/web/motd", "m2")
		look(1)
		look(0)
		if h.version(request(2, token)) != digestOf("t2") || h.version(request(2, motd)) != digestOf("m2") {
			t.Error("the versions are not those of now")
		}
		if got := h.version(request(1, document.File{Kind: document.FileString, Template: "x"})); got != "" {
			t.Error("a text has a version: its configuration says all there is")
		}
	})
}

func TestASourceThatCannotBeReadStaysAsItWas(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.secret("token", "t1")
		h.version(request(1, token))
		h.objects.Down(true)
		time.Sleep(time.Hour)
		if err := h.Refresh(t.Context()); !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("Refresh() = %v", err)
		}
		if _, err := h.Content(t.Context(), request(1, token)); err == nil {
			t.Error("an old content is given out while the source is away")
		}
		if h.Epoch() != 0 {
			t.Error("storage that is away counts as a change")
		}
		h.objects.Down(false)
		time.Sleep(10 * time.Second)
		if h.get(request(1, token)) != "t1" || h.Epoch() != 0 {
			t.Error("it is not as it was")
		}
	})
}

func TestS21_ASourceThatFailsIsNotReadForEachMachine(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		for machine := range 1000 {
			if _, err := h.Content(t.Context(), request(machine, token)); err == nil {
				t.Fatal("a secret that does not exist")
			}
		}
		if n := h.count("get secret/token"); n > 2 {
			t.Errorf("%d reads", n)
		}
	})
}

func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.secret("token", "t1")
		h.version(request(1, token))
		time.Sleep(24 * time.Hour)
		reads := h.count("get secret/token")
		if err := h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.count("get secret/token") != reads {
			t.Error("a secret that nobody has asked for was read")
		}
	})
}

func TestS22_MoreThanCanBeWatchedIsReadAndNotKept(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		const machines = 5000
		for machine := range machines {
			h.object(fmt.Sprint("files/machine-", machine), fmt.Sprint(machine))
		}
		var watched int
		for machine := range machines {
			if got := h.get(request(machine, own)); got != fmt.Sprint(machine) {
				t.Fatalf("machine %d got %q", machine, got)
			}
			if h.version(request(machine, own)) != "" {
				watched++
			}
		}
		if watched == machines || watched == 0 {
			t.Errorf("%d of %d are watched, want a bound", watched, machines)
		}
		h.get(request(0, own))
		reads := h.count("get files/machine-0")
		h.object(fmt.Sprint("files/machine-", machines-1), strings.Repeat("x", sources.MaxSize))
		for range 30 { // more than is held of all that is kept
			h.get(request(machines-1, own))
		}
		h.get(request(0, own))
		if n := h.count("get files/machine-0"); n != reads {
			t.Error("what is read and not kept has displaced what is kept")
		}
	})
}

// A context that ends while a source is read says nothing about the source.
func TestACallerThatGoesLeavesNoError(t *testing.T) {
	in(t, func(t *testing.T, h *house) {
		h.secret("token", "t1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := h.Content(ctx, request(1, token)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if h.get(request(1, token)) != "t1" {
			t.Error("the next caller does not get it")
		}
	})
}

// Whatever a value is, the line of an env file that it makes is one line, and a reader gets
// the value back.
func FuzzEnvironment(f *testing.F) {
	for _, v := range []string{"plain", "two words", `a "b" $c \ d`, "a\nb", "#x", "\x00", "=", "'"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.Contains(value, "{{") {
			return
		}
		s := sources.New(sources.Options{})
		c, err := s.Content(t.Context(), request(1, document.File{Kind: document.FileEnv, Template: map[string]any{"A": value}}))
		if err != nil {
			return
		}
		lines := slices.Collect(strings.Lines(string(c.Data)))
		if len(lines) != 1 {
			t.Fatalf("%d lines of %q", len(lines), value)
		}
		read, ok := strings.CutPrefix(strings.TrimSuffix(lines[0], "\n"), "A=")
		if !ok {
			t.Fatalf("line %q", lines[0])
		}
		if got := unquote(read); got != value {
			t.Errorf("a reader gets %q of %q, from %q", got, value, read)
		}
	})
}

// unquote reads a value as systemd and our documentation say.
func unquote(s string) string {
	inner, quoted := strings.CutPrefix(s, `"`)
	if !quoted {
		return s
	}
	inner = strings.TrimSuffix(inner, `"`)
	var out strings.Builder
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			out.WriteByte(inner[i])
			continue
		}
		i++
		switch inner[i] {
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		default:
			out.WriteByte(inner[i])
		}
	}
	return out.String()
}
