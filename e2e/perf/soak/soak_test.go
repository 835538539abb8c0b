//go:build soak

package soak_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/crash"
)

var (
	soakFor = flag.Duration("for", 10*time.Minute, "how long things are broken")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "makes the same choices again")
	size    = flag.Int("size", 100, "machines of the group")
)

const (
	// warmUp is how long things are broken before the server is measured first.
	warmUp = 2 * time.Minute
	// growth is how much larger the server may be in the end.
	growth = 1.1
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// TestSoak kills and stops machines, kills servers and edits the configuration at
// random. In the end the group has its size, nothing is left over (S4, S5, L1), and
// the leader needs no more than it did after two minutes.
func TestSoak(t *testing.T) {
	t.Logf("seed %d", *seed)
	s := &soak{
		World: crash.New(t, crash.Storage{}, *size), t: t,
		rand: rand.New(rand.NewPCG(*seed, 0)), done: map[string]int{},
	}
	s.SetConfig(strings.Replace(s.Config(), `"arch":`, `"vars": {"edit": "0"},
      "files": {"edit.conf": {"kind": "string", "template": "{{ .Vars.edit }}"}}, "arch":`, 1))
	s.StartServer("one")
	s.Settle(*size, time.Time{})
	s.StartServer("two")

	s.trouble(min(warmUp, *soakFor/3))
	early := s.measure("after the warm-up")
	s.trouble(*soakFor - warmUp)
	late := s.measure("in the end")
	for _, series := range watched {
		if late[series] > growth*early[series] {
			t.Errorf("%s grew from %.0f to %.0f", series, early[series], late[series])
		}
	}
	s.Audited(3)
	s.Settle(*size, time.Time{})
	s.Await("every machine has the file of the last edit", s.delivered)
	t.Logf("done: %v", s.done)
	for _, what := range troubles {
		if s.done[what.name] == 0 {
			t.Errorf("never happened: %s", what.name)
		}
	}
}

// soak is the world and what was done to it.
type soak struct {
	*crash.World

	t     *testing.T
	rand  *rand.Rand
	done  map[string]int
	edits int
}

// trouble is something that is done to the world, so often in a thousand times.
type trouble struct {
	name   string
	weight int
	do     func(*soak)
}

var troubles = []trouble{
	{"machine killed", 500, (*soak).killMachine},
	{"machine frozen", 300, (*soak).freezeMachine},
	{"several machines killed", 60, (*soak).killSeveral},
	{"server killed", 40, (*soak).killServer},
	{"variable edited", 50, (*soak).editVariable},
	{"size edited", 50, (*soak).editSize},
}

// trouble makes trouble for a while.
func (s *soak) trouble(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		n := s.rand.IntN(1000)
		for _, what := range troubles {
			if n -= what.weight; n < 0 {
				what.do(s)
				s.done[what.name]++
				break
			}
		}
		time.Sleep(time.Duration(s.rand.IntN(800)) * time.Millisecond)
	}
}

// pick is a machine that runs; false if none does.
func (s *soak) pick() (box.Machine, bool) {
	machines := s.Machines()
	if len(machines) == 0 {
		return box.Machine{}, false
	}
	return machines[s.rand.IntN(len(machines))], true
}

// signal reaches a machine that may have ended meanwhile.
func signal(m box.Machine, sig unix.Signal) { _ = m.Signal(sig) }

func (s *soak) killMachine() {
	if m, ok := s.pick(); ok {
		signal(m, unix.SIGKILL)
	}
}

func (s *soak) killSeveral() {
	for range 3 + s.rand.IntN(8) {
		s.killMachine()
	}
}

// freezeMachine stops a machine for some seconds, while other things happen.
func (s *soak) freezeMachine() {
	m, ok := s.pick()
	if !ok {
		return
	}
	signal(m, unix.SIGSTOP)
	thaw := time.AfterFunc(time.Duration(s.rand.IntN(8000))*time.Millisecond, func() { signal(m, unix.SIGCONT) })
	s.t.Cleanup(func() { thaw.Stop() })
}

// killServer kills one of the servers, mostly the leader, and starts it again.
func (s *soak) killServer() {
	id := s.LeaderID()
	if s.rand.IntN(3) == 0 {
		id = map[string]string{"one": "two", "two": "one"}[id]
	}
	s.KillServer(id)
	if s.rand.IntN(4) == 0 {
		s.LoseCache(id)
	}
	s.StartServer(id)
}

// editVariable changes what every machine has a file of.
func (s *soak) editVariable() {
	s.edits++
	s.edit(func(text string) string {
		const group = `"template": "dev"`
		before, after, _ := strings.Cut(text, group)
		if rest, ok := strings.CutPrefix(after, `, "vars": {"edit": "`); ok {
			_, after, _ = strings.Cut(rest, `"}`)
		}
		return before + group + fmt.Sprintf(`, "vars": {"edit": "%d"}`, s.edits) + after
	})
}

// editSize changes the size, by a tenth at most.
func (s *soak) editSize() { s.Resize(*size - *size/10 + s.rand.IntN(*size/5+1)) }

// edit has a leader take another configuration, as soon as one does.
func (s *soak) edit(change func(string) string) {
	s.SetConfig(change(s.Config()))
	s.Await("a leader takes the configuration", func() error {
		if r := s.Admin("config", "refresh"); r.Code != 0 {
			return fmt.Errorf("config refresh: %s", r.Err)
		}
		return nil
	})
}

// delivered returns nil if every machine has the file that the last edit made.
func (s *soak) delivered() error {
	for _, m := range s.Machines() {
		text, err := os.ReadFile(s.Path("machines", m.ID, "recv", "edit.conf"))
		if err != nil {
			return err
		}
		if want := strconv.Itoa(s.edits); string(text) != want {
			return fmt.Errorf("machine %s has edit %q, not %s", m.ID, text, want)
		}
	}
	return nil
}

// watched are the series that must not grow: live objects as the last collection
// found them, goroutines, and open files.
var watched = []string{"go_gc_heap_live_bytes", "go_goroutines", "process_open_fds"}

// measure has the group reach its size and reads what its leader needs, as the
// least of some looks: garbage and calls under way are not what is meant. All
// machines are new ones then: a server holds a file for each process that it has
// started, and how many of them an earlier one has started is luck.
func (s *soak) measure(when string) map[string]float64 {
	s.t.Helper()
	s.Resize(*size)
	s.Settle(*size, time.Now())
	for _, m := range s.Machines() {
		signal(m, unix.SIGKILL)
	}
	s.Settle(*size, time.Now())
	least := map[string]float64{}
	for look := range 15 {
		if look > 0 {
			time.Sleep(2 * time.Second)
		}
		addrs, err := s.Leader()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, series := range watched {
			value, err := box.Metric(s.t.Context(), addrs.Health, series)
			if err != nil {
				s.t.Fatal(err)
			}
			if old, ok := least[series]; !ok || value < old {
				least[series] = value
			}
		}
	}
	s.t.Logf("%s: %v; done: %v", when, least, s.done)
	return least
}
