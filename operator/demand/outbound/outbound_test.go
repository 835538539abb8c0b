package outbound

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Answers come first and in order; a full queue drops the newest; of roll-ups the newest is
// sent.
func TestQueueDropsByKind(t *testing.T) {
	var q Queue[int, string]
	if a, r := q.Next(); a != nil || r != nil {
		t.Errorf("an empty queue has %v, %v", a, r)
	}
	if q.Rollup("first") || !q.Rollup("second") {
		t.Error("a roll-up does not take the place of the one that waits")
	}
	for i := range Answers {
		if !q.Answer(i) {
			t.Fatalf("answer %d is dropped", i)
		}
	}
	if q.Answer(Answers) {
		t.Error("an answer is kept where there is no room")
	}
	for i := range Answers {
		if a, r := q.Next(); a == nil || *a != i || r != nil {
			t.Fatalf("next are %v and %v, want answer %d", a, r, i)
		}
	}
	if a, r := q.Next(); a != nil || r == nil || *r != "second" {
		t.Errorf("next are %v and %v, want the second roll-up", a, r)
	}
	if a, r := q.Next(); a != nil || r != nil {
		t.Errorf("left over are %v, %v", a, r)
	}
	if q.Rollup("third") {
		t.Error("one that was sent is replaced")
	}
	small := Queue[int, string]{Room: 1}
	if !small.Answer(1) || small.Answer(2) || *small.NextAnswer() != 1 || small.NextAnswer() != nil {
		t.Error("a queue with room for one keeps another number")
	}
}

// However slowly a shard reads, no more waits than there is room for, and what is sent keeps
// its order.
func TestQueueIsBounded(t *testing.T) {
	var q Queue[int, int]
	r := rand.New(rand.NewPCG(1, 2))
	asked, last, newest, sent := 0, -1, 0, 0
	for range 100_000 {
		switch r.IntN(5) {
		case 0, 1, 2:
			q.Answer(asked)
			asked++
		case 3:
			newest++
			q.Rollup(newest)
		default:
			a, rollup := q.Next()
			if a != nil && *a <= last {
				t.Fatalf("answer %d after %d", *a, last)
			} else if a != nil {
				last = *a
				sent++
			}
			if rollup != nil && *rollup != newest {
				t.Fatalf("roll-up %d is sent, the newest is %d", *rollup, newest)
			}
		}
		if len(q.answers) > Answers || cap(q.answers) > 4*Answers {
			t.Fatalf("%d answers wait, in room for %d", len(q.answers), cap(q.answers))
		}
	}
	if sent == 0 {
		t.Error("nothing was sent")
	}
}

func TestPace(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	for name, tt := range map[string]struct {
		least time.Duration
		do    func(*Pace)
		want  time.Time
	}{
		"a session begins":                    {time.Second, func(*Pace) {}, begin},
		"nothing changes":                     {time.Second, func(p *Pace) { p.Began(at(1)) }, at(11)},
		"a change":                            {time.Second, func(p *Pace) { p.Began(at(1)); p.Changed(at(5)) }, at(5.2)},
		"two changes":                         {time.Second, func(p *Pace) { p.Began(at(1)); p.Changed(at(5)); p.Changed(at(5.1)) }, at(5.3)},
		"many changes":                        {time.Second, func(p *Pace) { p.Began(at(1)); p.Changed(at(5)); p.Changed(at(5.9)) }, at(6)},
		"a change while one is built":         {time.Second, func(p *Pace) { p.Changed(at(0.5)); p.Began(at(1)); p.Changed(at(1.1)) }, at(1.3)},
		"the end of many changes":             {time.Second, func(p *Pace) { p.Changed(at(0.1)); p.Changed(at(1)); p.Began(at(1.1)); p.Changed(at(1.2)) }, at(1.4)},
		"a change just before the interval":   {time.Second, func(p *Pace) { p.Began(at(1)); p.Changed(at(10.5)); p.Changed(at(10.9)) }, at(11)},
		"a change before the first was built": {time.Second, func(p *Pace) { p.Changed(at(1)) }, begin},
		"changes wait for the interval":       {0, func(p *Pace) { p.Began(at(1)); p.Changed(at(5)) }, at(11)},
		"it was held":                         {time.Second, func(p *Pace) { p.Began(at(0)); p.Answered(at(0.5), true) }, at(10.5)},
		"held, and another one since":         {time.Second, func(p *Pace) { p.Answered(at(1), true); p.Began(at(5)) }, at(15)},
		"held, and a change":                  {time.Second, func(p *Pace) { p.Began(at(0)); p.Answered(at(0.1), true); p.Changed(at(2)) }, at(2.2)},
		"held, and one long before it is due": {time.Second, func(p *Pace) { p.Began(at(0)); p.Answered(at(4), true) }, at(10)},
		"held twice": {time.Second, func(p *Pace) {
			p.Began(at(0))
			p.Answered(at(0.5), true)
			p.Began(at(10.5))
			p.Answered(at(10.6), true)
		}, at(20.5)},
		"held again after a change": {time.Second, func(p *Pace) {
			p.Answered(at(1), true)
			p.Began(at(2))
			p.Answered(at(2.1), true)
			p.Began(at(12.1))
			p.Answered(at(12.2), true)
		}, at(21)},
		"held for longer": {time.Second, func(p *Pace) { p.Answered(at(1), true); p.Began(at(21)); p.Answered(at(21.1), true) }, at(31.1)},
		"held, accepted, held": {time.Second, func(p *Pace) {
			p.Answered(at(1), true)
			p.Answered(at(5), false)
			p.Began(at(12))
			p.Answered(at(12.1), true)
		}, at(22.1)},
		"accepted": {time.Second, func(p *Pace) { p.Began(at(0)); p.Answered(at(0.1), false) }, at(10)},
	} {
		p := NewPace(begin, 10*time.Second, tt.least)
		tt.do(p)
		if due := p.Due(); !due.Equal(tt.want) {
			t.Errorf("%s: due after %v, want %v", name, due.Sub(begin), tt.want.Sub(begin))
		}
	}
	// An interval that is longer than HeldFor does not put off what was held.
	p := NewPace(begin, time.Minute, time.Second)
	p.Began(at(0))
	p.Answered(at(1), true)
	if due := p.Due(); !due.Equal(at(11)) {
		t.Errorf("held: due after %v", due.Sub(begin))
	}
}

// Of changes that come one after another a few are sent at once; then it is one roll-up in each least time, and a
// change waits no longer than that whatever comes after it.
func TestPaceOfChangesThatDoNotEnd(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, every := range []time.Duration{10 * time.Millisecond, 150 * time.Millisecond, 210 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond} {
		p := NewPace(begin, 10*time.Second, time.Second)
		p.Began(begin)
		rollups, waits := 0, time.Time{}
		const tick, lasts = 5 * time.Millisecond, time.Minute
		for since := tick; since <= lasts; since += tick {
			now := begin.Add(since)
			if since%every == 0 {
				p.Changed(now)
				if waits.IsZero() {
					waits = now
				}
			}
			if !p.Due().After(now) {
				rollups++
				p.Began(now)
				waits = time.Time{}
			}
			if !waits.IsZero() && now.Sub(waits) > time.Second {
				t.Fatalf("a change each %v: one waits for %v", every, now.Sub(waits))
			}
		}
		if most := int(lasts/time.Second) + hurried + 1; rollups > most {
			t.Errorf("a change each %v: %d roll-ups in %v, want %d at most", every, rollups, lasts, most)
		}
	}
	// After a while without changes they are sent at once again.
	p := NewPace(begin, time.Hour, time.Second)
	p.Began(begin)
	for i := range 10 {
		p.Changed(begin.Add(time.Duration(i) * 300 * time.Millisecond))
		p.Began(p.Due())
	}
	later := begin.Add(time.Minute)
	if p.Changed(later); !p.Due().Equal(later.Add(200 * time.Millisecond)) {
		t.Errorf("a change after a minute without any is due after %v", p.Due().Sub(later))
	}
}
