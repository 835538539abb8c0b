package operations

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// world is an API server with operations, an operator whose cache lags and that is killed now and then, and
// executors that read old copies and race. It notes what must not happen.
type world struct {
	random *rand.Rand
	now    time.Time
	// history has every version of each operation; the last one is stored. Its index is the revision.
	history map[string][]*hostsv1.MachineOperation
	names   []string
	cache   map[string]int // revision that the operator's cache shows
	running Running
	limit   int
	paused  map[string]bool

	acting map[string]string // operation that an executor acts for, by machine
	acted  map[string]int
	wrong  []string
	// blind operators look at no ledger: a mistake that must be found.
	blind bool
	// careless executors act although their claim was refused: another one.
	careless bool
}

func (w *world) fail(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *world) stored(name string) *hostsv1.MachineOperation {
	all := w.history[name]
	return all[len(all)-1]
}

// put writes a version that was decided from a revision, unless another one was written since.
func (w *world) put(name string, revision int, op *hostsv1.MachineOperation) bool {
	if revision != len(w.history[name])-1 {
		return false
	}
	was := w.stored(name).Status.State
	if !MayFollow(was, op.Status.State) {
		w.fail("%s goes from %q to %q", name, was, op.Status.State)
	}
	w.history[name] = append(w.history[name], op)
	return true
}

// start is an operator that begins with what the API server says; its cache may show less.
func (w *world) start() {
	w.running = Running{}
	for _, name := range w.names {
		w.running.Note(w.stored(name))
		w.cache[name] = w.random.IntN(len(w.history[name]))
	}
}

func (w *world) machine(name string) Machine {
	return Machine{Found: true, Name: name, UID: "uid-" + name, Paused: w.paused[name], Executors: []hostsv1.Executor{{Name: "tracer", Operations: []string{"x"}}}}
}

// operate is one pass of the operator for one operation.
func (w *world) operate(name string) {
	for _, n := range w.names { // the cache moves on
		w.cache[n] += w.random.IntN(len(w.history[n]) - w.cache[n])
	}
	op := w.history[name][w.cache[name]]
	if op.Status.State == hostsv1.OperationInProgress || Finished(op.Status.State) {
		w.running.Note(op)
	}
	in := Input{Operation: op, Machine: w.machine(string(op.Spec.MachineRef.Name)), Parent: &Parent{Begun: true, Limit: w.limit}}
	for _, n := range w.names {
		if other := w.history[n][w.cache[n]]; other.Spec.MachineRef.Name == op.Spec.MachineRef.Name {
			in.Others = append(in.Others, other)
		}
	}
	if !w.blind {
		in.Busy, in.Full = w.running.Other(op), w.running.Full(op, w.limit)
	}
	d := Decide(in, w.now)
	if d.Executor != "" && d.Status.State == hostsv1.OperationPending && !w.running.Take(op, w.limit) && !w.blind {
		return
	}
	next := op.DeepCopy()
	next.Status = d.Status
	next.Labels[hostsv1.LabelExecutor] = d.Executor
	if w.put(name, w.cache[name], next) && d.Executor == "" && d.Status.State == hostsv1.OperationPending {
		w.running.Drop(string(op.UID))
	}
}

// execute is one of several executors of the same name that look at an old or new copy.
func (w *world) execute(name string) {
	revision := len(w.history[name]) - 1 - w.random.IntN(min(3, len(w.history[name])))
	op := w.history[name][revision]
	status, err := Claim(op, "tracer", w.now)
	if err != nil {
		return
	}
	next := op.DeepCopy()
	next.Status = status
	if !w.put(name, revision, next) && !w.careless {
		return
	}
	machine := string(op.Spec.MachineRef.Name)
	if other := w.acting[machine]; other != "" {
		w.fail("%s and %s at once on %s", other, name, machine)
	}
	w.acting[machine] = name
	if w.acted[name]++; w.acted[name] > 1 {
		w.fail("%s is executed %d times", name, w.acted[name])
	}
	if len(w.acting) > w.limit {
		w.fail("%d at once, of %d", len(w.acting), w.limit)
	}
}

// end has an executor end what it does; the write is made until it is taken.
func (w *world) end(machine string) {
	name := w.acting[machine]
	if name == "" {
		return
	}
	op := w.stored(name)
	status, err := Finish(op, "tracer", Outcome{Failed: w.random.IntN(2) == 0}, w.now)
	delete(w.acting, machine)
	if err != nil {
		return
	}
	next := op.DeepCopy()
	next.Status = status
	w.put(name, len(w.history[name])-1, next)
}

// play lets one story happen, and returns whether all operations have finished.
func play(seed uint64, change func(*world)) (*world, bool) {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), now: now, history: map[string][]*hostsv1.MachineOperation{}, cache: map[string]int{},
		limit: 2, paused: map[string]bool{}, acting: map[string]string{}, acted: map[string]int{},
	}
	change(w)
	machines := []string{"m0", "m1", "m2", "m3"}
	for i := range 10 {
		name := fmt.Sprintf("op%d", i)
		op := operation(name, "x", time.Duration(w.random.IntN(3))*time.Second)
		op.UID, op.Spec.MachineRef = types.UID(name), &hostsv1.MachineReference{Name: hostsv1.Label(machines[w.random.IntN(len(machines))])}
		op.Labels = map[string]string{hostsv1.LabelParentUID: "parent"}
		w.history[name], w.names = []*hostsv1.MachineOperation{op}, append(w.names, name)
	}
	w.start()
	for range 2000 {
		w.now = w.now.Add(time.Second)
		name, machine := w.names[w.random.IntN(len(w.names))], machines[w.random.IntN(len(machines))]
		switch n := w.random.IntN(100); {
		case n < 2:
			w.start() // it was killed
		case n < 4:
			w.paused[machine] = !w.paused[machine]
		case n < 55:
			w.operate(name)
		case n < 85:
			w.execute(name)
		default:
			w.end(machine)
		}
	}
	for _, name := range w.names {
		if !Finished(w.stored(name).Status.State) {
			return w, false
		}
	}
	return w, true
}

// M71, M74, M75, M77: whatever races, lags and is killed, an operation is executed once, a machine has one at a
// time, of one selector no more run than may, and what is final stays.
func TestM71M74M75M77_Interleavings(t *testing.T) {
	done := 0
	for seed := range uint64(100) {
		w, all := play(seed, func(*world) {})
		if len(w.wrong) > 0 {
			t.Fatalf("seed %d: %s", seed, w.wrong[0])
		}
		if all {
			done++
		}
	}
	if done < 70 {
		t.Errorf("all operations have finished in %d stories of 100", done)
	}
	for name, mistake := range map[string]func(*world){
		"an operator that trusts its cache":            func(w *world) { w.blind = true },
		"an executor that acts on a claim it has lost": func(w *world) { w.careless = true },
	} {
		found := 0
		for seed := range uint64(100) {
			if w, _ := play(seed, mistake); len(w.wrong) > 0 {
				found++
			}
		}
		if found == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}
