package delivery

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const month = 30 * 24 * time.Hour

var (
	env    = File{Name: "app.env"}
	token  = File{Name: "token", Version: "d1"}
	serial = File{Name: "kubelet.crt", Key: "kubelet", Version: "k1", Life: month}
	all3   = Wanted{Hash: "h1", Files: []File{env, serial, token}}
)

func at(d time.Duration) time.Time { return start.Add(d) }

// has is a report of files that were all sent at the start.
func has(hash string, files ...File) Report {
	r := Report{Hash: hash}
	for _, f := range files {
		r = r.with(f.Name, Status{Modified: start, Digest: f.Version})
	}
	return r
}

// with returns the report with another status of one file.
func (r Report) with(name string, s Status) Report {
	files := map[string]Status{}
	for _, old := range r.Files.files {
		files[old.name.Value()] = old.status()
	}
	files[name] = s
	return Report{Hash: r.Hash, Files: NewStatuses(len(files), maps.All(files))}
}

func push(reason Reason, files ...File) []Push {
	var all []Push
	for _, f := range files {
		all = append(all, Push{f, reason})
	}
	return all
}

func (f File) of(version string) File { f.Version = version; return f }

func (f File) withoutKey() File { f.NoKey, f.Version = true, ""; return f }

func wants(hash string, files ...File) Wanted { return Wanted{Hash: hash, Files: files} }

// A machine that has reported once is sent what it lacks.
func TestPlanOfAFirstReport(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report Report
		wanted Wanted
		now    time.Duration
		want   Plan
	}{
		{"has everything", has("h1", env, serial, token), all3, 0, Plan{}},
		{"has nothing", has("h1"), all3, 0, Plan{Files: push(Missing, env, token, serial), Commit: "h1"}},
		{"wants nothing", has("h1"), wants("h1"), 0, Plan{}},
		{
			"has nothing, and its key is not known yet", has("h1"), wants("h1", env, serial.withoutKey(), token), 0,
			Plan{Keys: []string{"kubelet"}, Files: push(Missing, env, token), Commit: "h1"},
		},
		{
			"two certificates for one key", has("h1", env), wants("h1", serial.withoutKey(), File{Name: "b.crt", Key: "kubelet", NoKey: true}), 0,
			Plan{Keys: []string{"kubelet"}},
		},
		{"lacks one", has("h1", env, serial), all3, 0, Plan{Files: push(Missing, token), Commit: "h1"}},
		{
			"knows of one that is not there", has("h1", env, serial, token).with("token", Status{}), all3, 0,
			Plan{Files: push(Missing, token), Commit: "h1"},
		},
		{
			"a damaged file", has("h1", env, serial, token).with("app.env", Status{Error: "changed"}), all3, 0,
			Plan{Files: push(Failed, env), Commit: "h1"},
		},
		{
			"a damaged certificate", has("h1", env, serial, token).with("kubelet.crt", Status{Error: "changed"}), all3, 0,
			Plan{Files: push(Failed, serial), Commit: "h1"},
		},
		{
			"a secret with other content", has("h1", env, serial, token.of("d0")), all3, 0,
			Plan{Files: push(Changed, token), Commit: "h1"},
		},
		{
			"a secret whose content is not known to the server", has("h1", env, serial, token), wants("h1", env, serial, token.of("")), 0,
			Plan{},
		},
		{
			"a secret whose content the agent does not tell", has("h1", env, serial, token.of("")), all3, 0,
			Plan{},
		},
		{
			"another configuration", has("h0", env, serial, token), all3, 0,
			Plan{Files: append(push(Drifted, env, token), push(Drifted, serial)...), Whole: true, Commit: "h1"},
		},
		{"another configuration without files", has("h0"), wants("h1"), 0, Plan{Whole: true, Commit: "h1"}},
		{"a hash that it does not have yet", has(""), wants("h1"), 0, Plan{Whole: true, Commit: "h1"}},
		{"files of nobody", has("h1", File{Name: "other"}), wants("h1"), 0, Plan{}},
		{"L10: a certificate before two thirds of its life", has("h1", env, serial, token), all3, month*2/3 - time.Second, Plan{}},
		{
			"L10: a certificate from two thirds of its life on", has("h1", env, serial, token), all3, month * 2 / 3,
			Plan{Files: push(Aged, serial), Commit: "h1"},
		},
		{
			"L10: a certificate after an outage of a quarter of its life", has("h1", env, serial, token), all3, month*2/3 + month/4,
			Plan{Files: push(Aged, serial), Commit: "h1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l Ledger
			l.Connected()
			if p := l.Plan(tt.wanted, at(tt.now)); !p.Empty() {
				t.Errorf("before the report: %+v", p)
			}
			l.Heard(tt.report, at(tt.now))
			if diff := cmp.Diff(tt.want, l.Plan(tt.wanted, at(tt.now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// story is a ledger that a test carries through time.
type story struct {
	Ledger
	t   *testing.T
	now time.Time
}

func newStory(t *testing.T, r Report) *story {
	s := &story{t: t, now: start}
	s.Connected()
	s.Heard(r, start)
	return s
}

func (s *story) after(d time.Duration) *story { s.now = s.now.Add(d); return s }

// expect compares the plan of now.
func (s *story) expect(w Wanted, want Plan) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.Plan(w, s.now)); diff != "" {
		s.t.Errorf("%v after the start:\n%s", s.now.Sub(start), diff)
	}
}

// carry carries the plan of now out.
func (s *story) carry(w Wanted) Plan {
	p := s.Plan(w, s.now)
	for _, f := range p.Files {
		s.Sent(f.File, w.Hash, s.now, s.now)
	}
	if p.Commit != "" {
		s.Committed(p.Commit, s.now)
	}
	return p
}

func TestBackOff(t *testing.T) {
	refused := has("h1", env, serial).with("token", Status{Error: "not valid"})
	for _, tt := range []struct {
		name   string
		report Report
		tried  func(*story)
	}{
		{"of a file that the machine refuses", refused, func(s *story) { s.carry(all3) }},
		{"of a file that cannot be made", refused, func(s *story) { s.Failed(token, s.now) }},
		{"of a configuration that the machine refuses", has("h0", env, serial, token), func(s *story) { s.carry(all3) }},
		{"of a configuration that cannot be made", has("h0", env, serial, token), func(s *story) { s.Abandoned("h1", s.now) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory(t, tt.report)
			for _, minutes := range []int{1, 2, 4, 8, 16, 30, 30} {
				if s.Plan(all3, s.now).Empty() {
					t.Fatalf("nothing to do %v after the start", s.now.Sub(start))
				}
				tt.tried(s)
				s.Heard(tt.report, s.now)
				s.after(time.Duration(minutes)*time.Minute-time.Second).expect(all3, Plan{})
				s.after(time.Second)
			}
		})
	}
}

func TestBackOffBeginsAnewWithOtherContent(t *testing.T) {
	s := newStory(t, has("h1", env, serial))
	for range 5 {
		s.carry(all3)
		s.after(time.Hour)
	}
	s.carry(all3)
	other := wants("h1", env, serial, token.of("d2"))
	s.expect(other, Plan{Files: push(Missing, token.of("d2")), Commit: "h1"})
	s.carry(other)
	s.after(time.Minute).expect(other, Plan{Files: push(Missing, token.of("d2")), Commit: "h1"})
}

func TestAFileThatStaysInPlaceForgetsItsTries(t *testing.T) {
	s := newStory(t, has("h1", env, serial))
	s.carry(all3)
	r := has("h1", env, serial).with("token", Status{Modified: s.now, Digest: "d1"})
	s.Heard(r, s.after(time.Second).now)
	if n, _ := s.Tries("token"); n != 1 {
		t.Errorf("%d tries a second later, want 1: it may be broken as soon again", n)
	}
	s.Heard(r, s.after(time.Minute).now)
	if n, _ := s.Tries("token"); n != 0 {
		t.Errorf("%d tries a minute later, want none", n)
	}
	s.Heard(r.with("token", Status{}), s.now)
	s.expect(all3, Plan{Files: push(Missing, token), Commit: "h1"})
}

func TestACertificateIsIssuedAnewForAnotherKey(t *testing.T) {
	s := newStory(t, has("h1", env, token))
	s.carry(all3)
	r := has("h1", env, token).with("kubelet.crt", Status{Modified: s.now})
	s.Heard(r, s.after(time.Second).now)
	s.expect(all3, Plan{})
	rekeyed := wants("h1", env, serial.of("k2"), token)
	s.expect(rekeyed, Plan{Files: push(Rekeyed, serial.of("k2")), Commit: "h1"})

	// It could not be: the reason stands, and waits.
	s.Failed(serial.of("k2"), s.now)
	s.expect(rekeyed, Plan{})
	s.after(time.Minute).expect(rekeyed, Plan{Files: push(Rekeyed, serial.of("k2")), Commit: "h1"})
	s.carry(rekeyed)
	s.Heard(r.with("kubelet.crt", Status{Modified: s.now}), s.after(time.Second).now)
	s.expect(rekeyed, Plan{})
}

func TestL10_ARenewalThatFailsIsTriedAgain(t *testing.T) {
	s := newStory(t, has("h1", env, serial, token))
	renewal := Plan{Files: push(Aged, serial), Commit: "h1"}
	s.after(month*2/3).expect(all3, renewal)
	s.Failed(serial, s.now)
	s.after(time.Minute).expect(all3, renewal)
	s.carry(all3)
	s.Heard(has("h1", env, serial, token), s.now) // was under way
	s.expect(all3, Plan{})
	s.Heard(has("h1", env, token).with("kubelet.crt", Status{Modified: s.now}), s.after(time.Second).now)
	s.after(month/2).expect(all3, Plan{})
	s.after(month/6).expect(all3, renewal)
}

// A certificate that ends with its authority is renewed in time for its real end, though
// no more often than another try would be.
func TestL10_ALifeEndsWithTheAuthority(t *testing.T) {
	for _, tt := range []struct {
		name       string
		life, left time.Duration
		want       time.Duration
	}{
		{"nobody knows the authority's end", month, 0, month * 2 / 3},
		{"the authority lasts longer", month, 2 * month, month * 2 / 3},
		{"the authority ends first", month, 3 * time.Hour, 2 * time.Hour},
		{"the authority ends soon", month, time.Minute, 30 * time.Minute},
		{"the authority has ended", month, -time.Hour, 30 * time.Minute},
		{"both ends are near", 3 * time.Minute, time.Minute, 2 * time.Minute},
	} {
		f := serial
		f.Life = tt.life
		if tt.left != 0 {
			f.Until = at(tt.left)
		}
		if got := f.RenewAt(start).Sub(start); got != tt.want {
			t.Errorf("%s: renewed after %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestWhatDoesNotFitFollowsLater(t *testing.T) {
	s := newStory(t, has("h0"))
	content := wants("h1", env, token)
	s.expect(content, Plan{Files: push(Drifted, env, token), Whole: true, Commit: "h1"})
	s.Sent(env, "h1", s.now, s.now)
	s.expect(content, Plan{Files: push(Drifted, token), Whole: true, Commit: "h1"})
	s.Sent(token, "h1", s.now, s.now)
	s.expect(content, Plan{Whole: true, Commit: "h1"}) // the commit did not fit either
	s.Committed("h1", s.now)
	s.expect(content, Plan{})
}

// A batch that was begun for one configuration must not be committed under another.
func TestAConfigurationThatChangesInTheMiddleOfABatch(t *testing.T) {
	first, second := wants("h1", env, token), wants("h2", env, token)
	t.Run("to a third one", func(t *testing.T) {
		s := newStory(t, has("h0"))
		s.Sent(env, "h1", s.now, s.now)
		s.expect(second, Plan{Files: push(Drifted, env, token), Whole: true, Commit: "h2"})
	})
	t.Run("back to the one that the machine has", func(t *testing.T) {
		s := newStory(t, has("h1", env, token))
		s.Sent(env, "h2", s.now, s.now)
		s.expect(first, Plan{Files: push(Drifted, env), Commit: "h1"})
	})
	t.Run("to the one before, whose commit is not confirmed", func(t *testing.T) {
		s := newStory(t, has("h0"))
		s.carry(first)
		s.Sent(env, "h2", s.now, s.now)
		s.expect(first, Plan{Files: push(Drifted, env, token), Whole: true, Commit: "h1"})
	})
}

// What is sent waits for its commit, but a certificate over a key that the machine has
// replaced since is issued anew before it.
func TestAKeyThatChangesInTheMiddleOfABatch(t *testing.T) {
	s := newStory(t, has("h1", env, token))
	s.Sent(serial, "h1", s.now, s.now)
	s.expect(all3, Plan{Commit: "h1"})
	rekeyed := wants("h1", env, serial.of("k2"), token)
	s.expect(rekeyed, Plan{Files: push(Missing, serial.of("k2")), Commit: "h1"})
}

// While a change of the configuration has to wait, a certificate does not; its commit names
// the configuration that the machine has.
func TestACertificateDoesNotWaitForAConfiguration(t *testing.T) {
	s := newStory(t, has("h0", env, token))
	s.Abandoned("h1", s.now)
	s.expect(all3, Plan{Files: push(Missing, serial), Commit: "h0"})
}

func TestANewStreamBeginsAgain(t *testing.T) {
	s := newStory(t, has("h0"))
	w := wants("h1", env, token)
	s.Sent(env, "h1", s.now, s.now)
	s.Connected()
	s.expect(w, Plan{}) // not before a report
	s.Heard(has("h0"), s.after(time.Second).now)
	s.expect(w, Plan{Files: push(Drifted, env, token), Whole: true, Commit: "h1"})

	// Once without waiting: streams that come and go are no way around the pauses.
	s.carry(w)
	s.Connected()
	s.Heard(has("h0"), s.now)
	s.carry(w)
	s.Connected()
	s.Heard(has("h0"), s.now)
	s.expect(w, Plan{})
}

func TestKeysAreAskedForAgain(t *testing.T) {
	s := newStory(t, has("h1", env, token))
	w := wants("h1", env, serial.withoutKey(), token)
	ask := Plan{Keys: []string{"kubelet"}}
	s.Asked(ask.Keys, s.now) // with the welcome
	s.expect(w, Plan{})
	s.after(time.Minute).expect(w, ask)
	s.Asked(ask.Keys, s.now)
	s.after(2*time.Minute-time.Second).expect(w, Plan{})
	s.after(time.Second).expect(w, ask)
	more := wants("h1", env, serial.withoutKey(), File{Name: "x.crt", Key: "x", NoKey: true})
	s.Asked(ask.Keys, s.now)
	s.expect(more, Plan{Keys: []string{"kubelet", "x"}})
}

// TestStatusesDiffer: in what is reported of a file, and in which files are.
func TestStatusesDiffer(t *testing.T) {
	old := has("h1", env, token)
	for name, c := range map[string]struct {
		now  Report
		want []string
	}{
		"nothing":       {old, nil},
		"a time":        {old.with("token", Status{Modified: at(time.Second), Digest: "d1"}), []string{"token"}},
		"an error":      {old.with("app.env", Status{Error: "refused"}), []string{"app.env"}},
		"another file":  {has("h1", env, serial, token), []string{"kubelet.crt"}},
		"one file less": {has("h1", env), []string{"token"}},
	} {
		if diff := cmp.Diff(c.want, c.now.Files.Differ(old.Files)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
