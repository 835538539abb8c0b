package retry

import (
	"context"
	"sync"
)

// Lookups are look-ups with names, made when somebody asks for them: those of one name follow
// each other, others do not wait for them. Who asks bounds how many names there are. They are
// safe for concurrent use.
//
// No lock is held while a look-up is made.
type Lookups struct {
	wake chan struct{} // has room for one

	mu       sync.Mutex
	asked    map[string]func(context.Context)
	underWay map[string]bool
}

// NewLookups returns look-ups that nobody has asked for. They start nothing.
func NewLookups() *Lookups {
	return &Lookups{wake: make(chan struct{}, 1), asked: map[string]func(context.Context){}, underWay: map[string]bool{}}
}

// Ask has look called soon, in a goroutine of Run. Of those that wait under one name the
// first is called, and no other.
func (l *Lookups) Ask(name string, look func(context.Context)) {
	l.mu.Lock()
	if l.asked[name] == nil {
		l.asked[name] = look
	}
	l.mu.Unlock()
	l.poke()
}

// Run makes what is asked for until ctx ends, and waits for what is under way.
func (l *Lookups) Run(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		for name, look := range l.begin() {
			looks.Go(func() {
				look(ctx)
				l.end(name)
			})
		}
	}
}

// begin takes what can be looked up now.
func (l *Lookups) begin() map[string]func(context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := map[string]func(context.Context){}
	for name, look := range l.asked {
		if !l.underWay[name] {
			now[name] = look
			l.underWay[name] = true
			delete(l.asked, name)
		}
	}
	return now
}

func (l *Lookups) end(name string) {
	l.mu.Lock()
	delete(l.underWay, name)
	again := l.asked[name] != nil
	l.mu.Unlock()
	if again {
		l.poke()
	}
}

func (l *Lookups) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
