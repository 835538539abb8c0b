package filesync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

func TestTheFirstReportBringsEverything(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "token": token, "node.crt": node}, func(t *testing.T, w *world) {
		w.secret("token", "t1")
		a := w.connect(nil)
		settle(3 * time.Second)
		a.expect("keys node", "file app.env", "file token", "commit h1", "file node.crt", "commit h1")
		if a.content("app.env") != "ROLE=web\n" || a.content("token") != "t1" {
			t.Errorf("contents %q and %q", a.content("app.env"), a.content("token"))
		}
		cert := a.certificate("node.crt")
		if cert.Subject.CommonName != "system:node:"+a.id.String() || !slices.Equal(cert.DNSNames, []string{"web"}) || !a.key.PublicKey.Equal(cert.PublicKey) {
			t.Errorf("certificate of %v, %v", cert.Subject, cert.DNSNames)
		}
		logs := w.certlogs()
		if len(logs) != 1 || len(logs[0].Certificates) != 1 || logs[0].Certificates[0].Serial != identity.SerialString(cert.SerialNumber) || logs[0].Certificates[0].Name != "node.crt" {
			t.Errorf("logs of certificates %+v", logs)
		}
		settle(time.Hour)
		a.expect() // and nothing more
	})
}

func TestAMachineWithoutFilesIsAskedForNoKeys(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		a := w.connect(nil)
		settle(time.Hour)
		a.expect("keys ")
	})
}

// Whatever the machine has lost or damaged comes back, and nothing else.
func TestWhatIsMissingIsSentAgain(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "token": token, "node.crt": node}, func(t *testing.T, w *world) {
		w.secret("token", "t1")
		a := w.connect(nil)
		settle(time.Hour)
		a.said()
		a.lose("app.env")
		settle(interval + 10*time.Second)
		a.expect("file app.env", "commit h1")
		first := a.certificate("node.crt").SerialNumber
		a.lose("node.crt")
		settle(interval + 10*time.Second)
		a.expect("file node.crt", "commit h1")
		if a.certificate("node.crt").SerialNumber.Cmp(first) == 0 || len(w.certlogs()) != 2 {
			t.Error("the certificate was not issued anew")
		}
	})
}

// A change of the configuration does not wait for a report.
func TestAChangeIsPushedAtOnceAndWhole(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "token": token, "node.crt": node}, func(t *testing.T, w *world) {
		w.secret("token", "t1")
		var all []*agent
		for range 20 {
			all = append(all, w.connect(nil))
		}
		settle(5 * time.Second)
		for _, a := range all {
			a.said()
		}
		w.change("h2", func(g *effective.Group) { g.Vars["role"] = "db" })
		settle(time.Second)
		for _, a := range all {
			a.expect("file app.env", "file token", "file node.crt", "commit h2") // the name in the certificate has changed
			if a.content("app.env") != "ROLE=db\n" || a.hash != "h2" || a.certificate("node.crt").DNSNames[0] != "db" {
				t.Errorf("content %q, hash %s", a.content("app.env"), a.hash)
			}
		}
	})
}

func TestAFileThatCannotBeMadeHoldsAWholeBatchAndIsToldOnce(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "token": token}, func(t *testing.T, w *world) {
		a := w.connect(nil)
		settle(time.Hour)
		a.expect("keys ", "file app.env", "commit h1") // a new machine gets what there is
		told := w.told()
		if len(told) != 1 || !strings.Contains(told[0], `file token, on the server: secret "token"`) {
			t.Errorf("told %q", told)
		}
		w.change("h2", func(g *effective.Group) { g.Vars["role"] = "db" })
		settle(time.Hour)
		a.expect() // a new configuration is all or nothing
		if a.content("app.env") != "ROLE=web\n" || a.hash != "h1" {
			t.Errorf("content %q, hash %s", a.content("app.env"), a.hash)
		}
		w.secret("token", "t1")
		settle(time.Hour)
		a.expect("file app.env", "file token", "commit h2")
		if n := len(w.told()); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

func TestAFileThatTheMachineRefusesIsToldOnce(t *testing.T) {
	in(t, map[string]document.File{"app.env": env}, func(t *testing.T, w *world) {
		a := w.connect(nil)
		settle(time.Minute)
		a.said()
		a.refuse.Store(true)
		w.change("h2", func(g *effective.Group) { g.Vars["role"] = "db" })
		settle(4*time.Hour + 20*time.Second)
		sent := a.said()
		if n := len(sent); n < 2*10 || n > 2*14 { // 0, 1, 3, 7, 15, 31, 61 … minutes
			t.Errorf("%d messages in four hours: %v", n, sent)
		}
		if told := w.told(); len(told) != 1 || !strings.Contains(told[0], "on the machine: no room") {
			t.Errorf("told %q", told)
		}
		files := w.cache.Files(a.id)
		if len(files) != 1 || files[0].Error != "no room" || files[0].Attempts < 8 {
			t.Errorf("rows %+v", files)
		}
		a.refuse.Store(false)
		settle(31 * time.Minute)
		if a.hash != "h2" {
			t.Error("it never recovered")
		}
	})
}

func TestASecretThatChangesIsNoticedWithinAnHour(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "token": token}, func(t *testing.T, w *world) {
		w.secret("token", "t1")
		a := w.connect(nil)
		settle(10 * time.Minute)
		a.said()
		w.secret("token", "t2")
		settle(time.Hour)
		a.expect("file token", "commit h1")
		if a.content("token") != "t2" {
			t.Error("it is the old one")
		}
	})
}

// What a machine has, its reports say: the next leader sends nothing that is there, and
// knows a secret that has changed in between.
func TestTheNextLeaderSendsWhatIsLacking(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "token": token, "node.crt": node}, func(t *testing.T, w *world) {
		w.secret("token", "t1")
		a := w.connect(nil)
		settle(10 * time.Minute)
		a.said()
		for _, secret := range []string{"t1", "t2"} {
			w.end()
			w.secret("token", secret)
			w.lead(leadership(t))
			w.connect(a)
			settle(10 * time.Minute)
			if secret == "t1" {
				a.expect("keys node")
			} else {
				a.expect("keys node", "file token", "commit h1")
			}
		}
		if n := len(w.certlogs()); n != 1 {
			t.Errorf("%d certificates were issued, want one", n)
		}
	})
}

func TestANewKeyGetsANewCertificate(t *testing.T) {
	in(t, map[string]document.File{"node.crt": node}, func(t *testing.T, w *world) {
		a := w.connect(nil)
		settle(10 * time.Second)
		a.said()
		other := w.connect(nil)
		settle(10 * time.Second)
		a.mu.Lock()
		a.key = other.key
		a.mu.Unlock()
		w.connect(a)
		settle(10 * time.Second)
		a.expect("keys node", "file node.crt", "commit h1")
		if !other.key.PublicKey.Equal(a.certificate("node.crt").PublicKey) {
			t.Error("the certificate is not for the new key")
		}
	})
}

func TestKeysThatDoNotComeAreAskedForAgain(t *testing.T) {
	in(t, map[string]document.File{"app.env": env, "node.crt": node}, func(t *testing.T, w *world) {
		a := w.connect(nil)
		a.mu.Lock()
		a.keys = false
		a.mu.Unlock()
		w.cache.Reset() // what it handed in is lost
		w.insert(a.id)
		w.connect(a)
		settle(8 * time.Minute)
		if got := a.said(); slices.IndexFunc(got, func(s string) bool { return s == "keys node" }) < 0 || len(got) > 10 {
			t.Errorf("sent %q", got)
		}
		a.mu.Lock()
		a.keys = true
		a.mu.Unlock()
		settle(16 * time.Minute)
		if !a.key.PublicKey.Equal(a.certificate("node.crt").PublicKey) {
			t.Error("no certificate")
		}
	})
}

func TestS22_WhatDoesNotFitIsDerivedAgain(t *testing.T) {
	files := many(60)
	files["node.crt"] = node
	in(t, files, func(t *testing.T, w *world) {
		a := w.connect(nil)
		a.mu.Lock()
		a.deaf = true
		a.mu.Unlock()
		settle(time.Hour)
		a.mu.Lock()
		a.deaf = false
		a.mu.Unlock()
		settle(10 * time.Minute)
		if a.most > 16 {
			t.Errorf("%d messages waited for one agent", a.most)
		}
		log := a.said()
		for name := range files {
			if a.content(name) == "" {
				t.Errorf("%s never came", name)
			}
			if n := count(log, "file "+name); n != 1 {
				t.Errorf("%s came %d times", name, n)
			}
		}
		if n := count(log, "commit h1"); n < 1 || n > 2 {
			t.Errorf("%d commits, want one of the contents and perhaps one of the certificate", n)
		}
	})
}

func TestS14_NoSecretInTheLogOrToldToAnybody(t *testing.T) {
	in(t, map[string]document.File{"token": token, "broken": {Kind: document.FileStorage, Source: "files/none"}}, func(t *testing.T, w *world) {
		w.secret("token", marked)
		a := w.connect(nil)
		a.refuse.Store(true)
		settle(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		seen := w.logs.String() + strings.Join(w.troubles, "\n") + fmt.Sprint(w.cache.Files(a.id))
		if strings.Contains(seen, marked) || !strings.Contains(seen, "no room") {
			t.Errorf("what can be seen: %s", seen)
		}
	})
}

func TestHostileReportsAreBounded(t *testing.T) {
	in(t, map[string]document.File{"app.env": env}, func(t *testing.T, w *world) {
		a := w.connect(nil)
		a.mu.Lock()
		for i := range 5000 {
			a.errors[fmt.Sprint("x", i)] = strings.Repeat("y", 5000)
		}
		a.errors["../../etc/passwd"], a.errors["a\nb"] = "x", "x"
		a.mu.Unlock()
		settle(2 * interval)
		files := w.cache.Files(a.id)
		if len(files) > 2048 {
			t.Errorf("%d rows", len(files))
		}
		for _, f := range files {
			if len(f.Error) > 200 || strings.ContainsAny(f.Name, "/\n") {
				t.Fatalf("row %.50q with an error of %d bytes", f.Name, len(f.Error))
			}
		}
	})
}

var errStore = fmt.Errorf("certlog: %w", objectstore.ErrUnavailable)

func TestWithoutTheLogThereAreNoCertificates(t *testing.T) {
	in(t, map[string]document.File{"node.crt": node}, func(t *testing.T, w *world) {
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && strings.HasPrefix(c.Key, "certlog/") {
				return memory.Fault{Before: errStore}
			}
			return memory.Fault{}
		})
		a := w.connect(nil)
		settle(30 * time.Second)
		a.expect("keys node")
		if told := w.told(); len(told) != 1 || !strings.Contains(told[0], "could not be logged") {
			t.Errorf("told %q", told)
		}
		w.store.SetFaults(nil)
		settle(10 * time.Minute)
		a.expect("file node.crt", "commit h1")
		if !errors.Is(errStore, objectstore.ErrUnavailable) || len(w.certlogs()) != 1 {
			t.Errorf("%d logs", len(w.certlogs()))
		}
	})
}
