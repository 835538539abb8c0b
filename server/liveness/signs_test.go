package liveness

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

var epoch = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

// TestF32_WhatCountsAsHeard: from when reports count, and from when they may be missed, by
// what this leader has heard. Its term began at 10 s.
func TestF32_WhatCountsAsHeard(t *testing.T) {
	began := at(10 * time.Second)
	for name, c := range map[string]struct {
		signs           func(*signs)
		registered      time.Time
		last, notBefore time.Time
	}{
		"nothing": {func(*signs) {}, epoch, began, began.Add(time.Minute)},
		"nothing of one that registered meanwhile": {func(*signs) {}, at(15 * time.Second), at(15 * time.Second), began.Add(time.Minute)},
		"that its stream is up":                    {func(s *signs) { s.connect(at(20 * time.Second)) }, epoch, at(20 * time.Second), time.Time{}},
		"that its stream is up again": {func(s *signs) {
			s.report(false, at(20*time.Second))
			s.connect(at(25 * time.Second))
		}, epoch, at(20 * time.Second), time.Time{}},
		"a report": {func(s *signs) { s.report(false, at(20*time.Second)) }, epoch, at(20 * time.Second), time.Time{}},
		"the end of the stream of one that reports once": {func(s *signs) {
			s.report(true, at(20*time.Second))
			s.disconnect(true, at(30*time.Second))
		}, epoch, at(30 * time.Second), time.Time{}},
	} {
		var s signs
		c.signs(&s)
		ev := s.evidence(cache.Instance{Instance: fleet.Instance{RegisteredAt: c.registered}}, testSettings, began, at(time.Minute))
		if !ev.LastReport.Equal(c.last) || !ev.NotBefore.Equal(c.notBefore) {
			t.Errorf("%s: last report %v, not before %v; want %v and %v", name, ev.LastReport, ev.NotBefore, c.last, c.notBefore)
		}
	}
	slow := testSettings
	slow.ReportInterval = time.Hour
	if ev := new(signs).evidence(cache.Instance{}, slow, began, began); !ev.NotBefore.Equal(began.Add(3 * time.Hour)) {
		t.Errorf("with an interval of an hour nobody is missed before %v, want three hours", ev.NotBefore)
	}
}

// TestF31_AGoodbyeIsNoLoss: what is known of the stream after its end, and after the next one.
func TestF31_AGoodbyeIsNoLoss(t *testing.T) {
	for name, c := range map[string]struct {
		signs     func(*signs)
		connected bool
		lost      time.Time
	}{
		"up":                       {func(s *signs) { s.connect(epoch) }, true, time.Time{}},
		"ended with a goodbye":     {func(s *signs) { s.connect(epoch); s.disconnect(true, at(time.Second)) }, false, time.Time{}},
		"broken":                   {func(s *signs) { s.connect(epoch); s.disconnect(false, at(time.Second)) }, false, at(time.Second)},
		"up again":                 {func(s *signs) { s.disconnect(false, epoch); s.connect(at(time.Second)) }, true, time.Time{}},
		"a report that was behind": {func(s *signs) { s.disconnect(false, epoch); s.report(false, at(time.Second)) }, false, time.Time{}},
	} {
		var s signs
		c.signs(&s)
		if ev := s.evidence(cache.Instance{}, testSettings, epoch, at(time.Minute)); ev.Connected != c.connected || !ev.Lost.Equal(c.lost) {
			t.Errorf("%s: connected %v, lost %v; want %v and %v", name, ev.Connected, ev.Lost, c.connected, c.lost)
		}
	}
}

func TestFirstReportAndGoodStanding(t *testing.T) {
	var s signs
	if first, settled := s.report(false, epoch); !first || settled {
		t.Errorf("of one never heard of: first %v, settled %v", first, settled)
	}
	s.due = at(11 * time.Second)
	if first, settled := s.report(false, at(time.Second)); first || !settled {
		t.Errorf("in time: first %v, settled %v", first, settled)
	}
	s.disconnect(false, at(2*time.Second))
	if _, settled := s.report(false, at(3*time.Second)); settled {
		t.Error("settled after its stream broke")
	}
}

// TestF34_OnlyAnEarlierNoticeIsNews: an agent repeats it with each report.
func TestF34_OnlyAnEarlierNoticeIsNews(t *testing.T) {
	var s signs
	for i, c := range []struct {
		deadline time.Time
		news     bool
	}{
		{time.Time{}, true}, {time.Time{}, false}, {at(2 * time.Minute), true}, {at(2 * time.Minute), false},
		{at(3 * time.Minute), false}, {at(time.Minute), true}, {time.Time{}, false},
	} {
		if news := s.give(fleet.Notice{Action: "stop", Deadline: c.deadline}); news != c.news {
			t.Errorf("notice %d, of %v: news %v, want %v", i, c.deadline, news, c.news)
		}
	}
	if !s.notice.Deadline.Equal(at(time.Minute)) {
		t.Errorf("the notice ends at %v", s.notice.Deadline)
	}
}

// TestF22_HowLongACreateMayLast: it counts from when the create was last sent, and not while
// it waits.
func TestF22_HowLongACreateMayLast(t *testing.T) {
	lasts := testSettings.RequestTimeout + testSettings.Lag
	for name, c := range map[string]struct {
		signs   func(*signs)
		created time.Time
		until   time.Time
	}{
		"of a former leader":   {func(*signs) {}, epoch, at(lasts)},
		"that waits":           {func(s *signs) { s.create(true, at(time.Second)) }, epoch, time.Time{}},
		"that is sent":         {func(s *signs) { s.create(true, epoch); s.create(false, at(time.Minute)) }, at(time.Minute), at(time.Minute + lasts)},
		"that waits once more": {func(s *signs) { s.create(false, at(time.Minute)); s.create(true, at(2*time.Minute)) }, epoch, time.Time{}},
	} {
		var s signs
		c.signs(&s)
		ev := s.evidence(cache.Instance{Instance: fleet.Instance{Created: epoch}}, testSettings, epoch, at(time.Hour))
		if !ev.Created.Equal(c.created) || !ev.CreatingUntil.Equal(c.until) {
			t.Errorf("a create %s: from %v until %v, want %v and %v", name, ev.Created, ev.CreatingUntil, c.created, c.until)
		}
	}
}

// TestF26_UntilWhenAnAgentMayRegister: from the start of its machine, and not past its nonce.
func TestF26_UntilWhenAnAgentMayRegister(t *testing.T) {
	nonce := at(10 * time.Minute)
	for name, c := range map[string]struct {
		status  driver.Status
		running time.Time // seen before
		want    time.Time
	}{
		"not running":    {driver.Pending, time.Time{}, nonce},
		"running now":    {driver.Running, time.Time{}, at(time.Minute + testSettings.RegistrationTimeout)},
		"running before": {driver.Running, epoch, at(testSettings.RegistrationTimeout)},
		"running late":   {driver.Running, at(9 * time.Minute), nonce},
		"no more":        {driver.Stopped, epoch, at(testSettings.RegistrationTimeout)},
	} {
		s := signs{running: c.running}
		in := cache.Instance{ProviderStatus: string(c.status), NonceExpires: nonce}
		if ev := s.evidence(in, testSettings, epoch, at(time.Minute)); !ev.RegisterBy.Equal(c.want.Add(identity.NonceLeeway)) {
			t.Errorf("%s: until %v, want %v", name, ev.RegisterBy, c.want.Add(identity.NonceLeeway))
		}
	}
}

// TestS6_AnAnswerCountsAsOfItsQuestion: answers of the provider overtake each other.
func TestS6_AnAnswerCountsAsOfItsQuestion(t *testing.T) {
	see := func(s *signs, asked time.Time) bool { s.see(fleet.Up, "", asked); return false }
	miss := func(s *signs, asked time.Time) bool { return s.miss(fleet.ByGet, asked, epoch, testSettings.Lag) }
	for name, c := range map[string]struct {
		signs  func(*signs) bool
		absent bool
		gone   bool
	}{
		"lacked too early":     {func(s *signs) bool { return miss(s, at(2*time.Second)) }, false, false},
		"lacked once":          {func(s *signs) bool { return miss(s, at(4*time.Second)) }, true, false},
		"lacked twice":         {func(s *signs) bool { miss(s, at(4*time.Second)); return miss(s, at(14*time.Second)) }, true, true},
		"lacked twice at once": {func(s *signs) bool { miss(s, at(4*time.Second)); return miss(s, at(5*time.Second)) }, true, false},
		"seen since":           {func(s *signs) bool { miss(s, at(4*time.Second)); return see(s, at(5*time.Second)) }, false, false},
		"seen since, by an answer that was slow": {func(s *signs) bool {
			miss(s, at(9*time.Second))
			return see(s, at(5*time.Second))
		}, true, false},
		"lacked before it was seen, by an answer that was slow": {func(s *signs) bool {
			see(s, at(9*time.Second))
			return miss(s, at(5*time.Second))
		}, false, false},
		"lacked by a listing and a Get": {func(s *signs) bool {
			miss(s, at(4*time.Second))
			return s.miss(fleet.ByList, at(4*time.Second), epoch, testSettings.Lag)
		}, true, true},
	} {
		var s signs
		gone := c.signs(&s)
		if absent := !s.absence().First.IsZero(); absent != c.absent || gone != c.gone {
			t.Errorf("%s: absent %v, gone %v; want %v and %v", name, absent, gone, c.absent, c.gone)
		}
	}
}

// TestWhatTheProviderShows: what a row takes over of a machine, by its state.
func TestWhatTheProviderShows(t *testing.T) {
	for name, c := range map[string]struct {
		in      fleet.Instance
		status  driver.Status
		state   fleet.State
		power   fleet.Power
		host    string
		stopped bool
	}{
		"the first machine":   {fleet.Instance{State: fleet.Pending}, driver.Pending, fleet.Provisioning, fleet.Up, "shown", false},
		"a registered one":    {fleet.Instance{State: fleet.Running, Power: fleet.Up, RegisteredAt: epoch}, driver.Running, fleet.Running, fleet.Up, "reported", false},
		"one that stopped":    {fleet.Instance{State: fleet.Draining, Power: fleet.Up, RegisteredAt: epoch}, driver.Stopped, fleet.Draining, fleet.Down, "reported", true},
		"one that is stopped": {fleet.Instance{State: fleet.Draining, Power: fleet.Down, RegisteredAt: epoch}, driver.Stopped, fleet.Draining, fleet.Down, "reported", false},
		"one that we delete":  {fleet.Instance{State: fleet.Deleting, Power: fleet.Up, RegisteredAt: epoch}, driver.Stopped, fleet.Deleting, fleet.Up, "reported", false},
		"one that is deleted": {fleet.Instance{State: fleet.Deleted, Power: fleet.Gone}, driver.Running, fleet.Deleted, fleet.Gone, "reported", false},
	} {
		in := cache.Instance{Instance: c.in, Hostname: "reported"}
		stopped, err := show(&in, driver.Machine{Status: c.status, Hostname: "shown", ProviderID: "vm"}, epoch)
		if err != nil || in.State != c.state || in.Power != c.power || in.Hostname != c.host || stopped != c.stopped {
			t.Errorf("%s: %s, %v, %q, stopped %v, %v; want %s, %v, %q, %v", name, in.State, in.Power, in.Hostname, stopped, err, c.state, c.power, c.host, c.stopped)
		}
		if (in.ProviderID == "vm") != (c.state != fleet.Deleted) {
			t.Errorf("%s: the provider's id is %q", name, in.ProviderID)
		}
	}
}

// TestAVerdictInARow: what each verdict leaves, and that one on another state leaves nothing.
func TestAVerdictInARow(t *testing.T) {
	sick := fleet.Verdict{Event: fleet.EventFoundSick, Reason: fleet.ReasonUnhealthy, Power: fleet.Up}
	for name, c := range map[string]struct {
		in      cache.Instance
		judged  fleet.State
		verdict fleet.Verdict
		state   fleet.State
		since   time.Time // sick
		err     bool
	}{
		"missed":   {cache.Instance{Instance: fleet.Instance{State: fleet.Running}}, fleet.Running, fleet.Verdict{Event: fleet.EventMissed}, fleet.Suspect, time.Time{}, false},
		"sick":     {cache.Instance{Instance: fleet.Instance{State: fleet.Suspect}}, fleet.Suspect, sick, fleet.Unhealthy, at(time.Minute), false},
		"well":     {cache.Instance{Instance: fleet.Instance{State: fleet.Unhealthy}, UnhealthyAt: epoch}, fleet.Unhealthy, fleet.Verdict{Event: fleet.EventReported}, fleet.Running, time.Time{}, false},
		"no event": {cache.Instance{Instance: fleet.Instance{State: fleet.Running}}, fleet.Running, fleet.Verdict{Power: fleet.Up}, fleet.Running, time.Time{}, false},
		"moved":    {cache.Instance{Instance: fleet.Instance{State: fleet.Condemned}}, fleet.Suspect, sick, fleet.Condemned, time.Time{}, true},
	} {
		err := applyVerdict(&c.in, c.judged, c.verdict, at(time.Minute))
		if (err != nil) != c.err || c.in.State != c.state || !c.in.UnhealthyAt.Equal(c.since) || err == nil && c.in.Power != c.verdict.Power {
			t.Errorf("%s: %s since %v, %v; want %s since %v", name, c.in.State, c.in.UnhealthyAt, err, c.state, c.since)
		}
	}
}

func TestProviderWords(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"Server.SpotInstance\n\x00": "Server.SpotInstance  ",
		"a\xffb":                    "a?b",
		strings.Repeat("x", 600):    strings.Repeat("x", 512),
	} {
		if got := providerWords(in); got != want {
			t.Errorf("%.30q: %q, want %q", in, got, want)
		}
	}
	if long := providerWords(strings.Repeat("é", 300) + "x"); len(long) > 512 || !utf8.ValidString(long) {
		t.Errorf("%d bytes, valid %v", len(long), utf8.ValidString(long))
	}
}

// TestF32_WhenToLookAtTheWholeShard: not without somebody silent, not more than once in a
// second, and as long as the brake is on.
func TestF32_WhenToLookAtTheWholeShard(t *testing.T) {
	one := map[identity.ID]time.Time{"vmx0": epoch}
	for name, c := range map[string]struct {
		s    silences
		want time.Time
	}{
		"nothing new":        {silences{suspects: one, counted: at(-time.Hour)}, time.Time{}},
		"nobody any more":    {silences{changed: true, counted: at(-time.Hour)}, time.Time{}},
		"somebody":           {silences{suspects: one, changed: true, counted: at(-time.Hour)}, epoch},
		"somebody, too soon": {silences{suspects: one, changed: true, counted: at(-time.Millisecond)}, at(999 * time.Millisecond)},
		"the brake is on":    {silences{brake: fleet.Silence{Since: at(-time.Minute)}, counted: at(-time.Second)}, epoch},
	} {
		if got := c.s.next(epoch); !got.Equal(c.want) {
			t.Errorf("%s: at %v, want %v", name, got, c.want)
		}
	}
}

// TestF32_TheBrakeComesOff: reports that were held up have an interval to arrive, unless the
// brake was on for as long as it may be.
func TestF32_TheBrakeComesOff(t *testing.T) {
	interval := testSettings.ReportInterval
	for name, c := range map[string]struct {
		on, off time.Duration
		want    time.Time // until when nobody is found sick
	}{
		"early": {0, time.Minute, at(time.Minute + interval + interval/10)},
		"late":  {0, time.Hour, time.Time{}},
	} {
		var s silences
		s.set(fleet.Silence{Since: at(c.on)}, interval, at(c.on))
		if until := s.suspended(); !until.Equal(fleet.Silence{Since: at(c.on)}.Until()) {
			t.Errorf("%s: on until %v", name, until)
		}
		s.set(fleet.Silence{}, interval, at(c.off))
		if got := s.suspended(); !got.Equal(c.want) {
			t.Errorf("%s: then until %v, want %v", name, got, c.want)
		}
	}
}
