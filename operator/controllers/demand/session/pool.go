package session

import "sync"

// pool runs what it is given, at most limit at once: what is urgent first, and each kind in
// order. It has no more goroutines than there is work. Safe for concurrent use.
type pool struct {
	limit    int
	inflight func(change int)

	mu      sync.Mutex
	urgent  []func()
	queue   []func()
	workers int
	closed  bool
	running sync.WaitGroup // of workers
}

func newPool(limit int, inflight func(int)) *pool { return &pool{limit: limit, inflight: inflight} }

// do runs f as soon as there is room. Once the pool is closed it is dropped.
func (p *pool) do(urgent bool, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return
	case urgent:
		p.urgent = append(p.urgent, f)
	default:
		p.queue = append(p.queue, f)
	}
	if p.workers < p.limit {
		p.workers++
		p.running.Go(p.work)
	}
}

func (p *pool) work() {
	for {
		f := p.next()
		if f == nil {
			return
		}
		p.inflight(1)
		f()
		p.inflight(-1)
	}
}

// next takes what is to be run next; nil: nothing is, and the worker ends.
func (p *pool) next() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range []*[]func(){&p.urgent, &p.queue} {
		if len(*q) > 0 {
			f := (*q)[0]
			(*q)[0] = nil
			if *q = (*q)[1:]; len(*q) == 0 {
				*q = nil
			}
			return f
		}
	}
	p.workers--
	return nil
}

// close drops what waits, and returns when what runs has ended.
func (p *pool) close() {
	p.mu.Lock()
	p.closed, p.urgent, p.queue = true, nil, nil
	p.mu.Unlock()
	p.running.Wait()
}

// lane keeps of each key the newest message that waits to be handled, so that one key has one
// handler at a time. It is not safe for concurrent use; [newLane] makes one.
type lane[M any] struct {
	waits map[string]M
	taken map[string]bool
}

func newLane[M any]() *lane[M] { return &lane[M]{map[string]M{}, map[string]bool{}} }

// arrived takes a message in, in place of one that waits. True: the key has no handler, and the
// caller starts one, which calls next until there is nothing left.
func (l *lane[M]) arrived(key string, m M) bool {
	l.waits[key] = m
	start := !l.taken[key]
	l.taken[key] = true
	return start
}

// next takes the message of a key; false: there is none, and its handler ends.
func (l *lane[M]) next(key string) (M, bool) {
	m, ok := l.waits[key]
	delete(l.waits, key)
	if !ok {
		delete(l.taken, key)
	}
	return m, ok
}

// failed puts a message back that could not be handled, unless a newer one waits.
func (l *lane[M]) failed(key string, m M) {
	if _, newer := l.waits[key]; !newer {
		l.waits[key] = m
	}
}
