package proxmoxfake

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"nstance.dev/server/driver/drivertest/wire"
)

// Cloud is a cluster. It is an [http.Handler] for paths below /api2/json; all methods
// are safe for concurrent use.
type Cloud struct {
	// Gate stands before all calls: what was asked, and what goes wrong. The key of
	// a call is the name of the machine it is about, its number where it has no name
	// yet, the file of an upload, or the UPID of a task.
	Gate *wire.Gate

	opts Options
	mux  *http.ServeMux

	mu       sync.Mutex
	clock    clock
	epoch    time.Time // when the status daemons began
	seen     seen      // what they saw last
	nodes    map[string]*node
	machines map[int]*machine
	volumes  map[string]*volume // by place and name, see key
	free     map[string]int64   // bytes left by place, where SetRoom says so
	pools    map[string][]int
	tasks    map[string]*task // by UPID
	spoil    func(kind, name string) string
	hidden   bool // listings show no machine
	rivals   int  // how many of the next clones lose their number
	pids     int
	storage  locks // by place
	files    locks // of machines' configurations, by number
	timer    *time.Timer
	closed   bool
}

// New builds a cluster. It has to be closed if opts.Run is set.
func New(opts Options) *Cloud {
	opts = opts.complete()
	c := &Cloud{
		Gate: wire.NewGate(), opts: opts,
		epoch: time.Now(),
		nodes: map[string]*node{}, machines: map[int]*machine{}, volumes: map[string]*volume{}, free: map[string]int64{},
		pools: map[string][]int{}, tasks: map[string]*task{},
		pids: 1000, storage: locks{}, files: locks{},
	}
	for _, n := range opts.Nodes {
		c.nodes[n.Name] = &node{Node: n, online: true, since: c.epoch}
	}
	for _, pool := range opts.Pools {
		c.pools[pool] = []int{}
	}
	for _, t := range opts.Templates {
		c.plantTemplate(t)
	}
	c.look(c.epoch)
	c.mux = c.routes()
	return c
}

// ServeHTTP implements [http.Handler].
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

// Close ends what machines run.
func (c *Cloud) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, m := range c.machines {
		m.halt(false)
	}
}

// now winds the clock on to the present and returns it. The caller locks, and calls
// arm when it is done.
func (c *Cloud) now() time.Time {
	now := time.Now()
	c.clock.wind(now, c.look)
	return now
}

// arm sees to it that what comes next happens in time even if nobody looks. Only
// what machines run has to happen unseen.
func (c *Cloud) arm() {
	if c.opts.Run == nil || c.closed {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if next, ok := c.clock.next(); ok {
		c.timer = time.AfterFunc(time.Until(next), func() { c.with(func(time.Time) {}) })
	}
}

// with does something to the cluster as it is now.
func (c *Cloud) with(do func(now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	do(c.now())
	c.arm()
}

// store returns a storage as seen from a node.
func (c *Cloud) store(name, node string) (Storage, error) {
	i := slices.IndexFunc(c.opts.Storages, func(s Storage) bool { return s.Name == name })
	if i < 0 {
		return Storage{}, die("storage '%s' does not exist", name)
	}
	s := c.opts.Storages[i]
	if len(s.Nodes) > 0 && !slices.Contains(s.Nodes, node) {
		return Storage{}, die("storage '%s' is not available on node '%s'", name, node)
	}
	return s, nil
}

// room returns the bytes that a place still takes.
func (c *Cloud) room(s Storage, node string) int64 {
	p := place(s, node)
	if free, set := c.free[p]; set {
		return free
	}
	size := s.Size
	if size == 0 {
		size = 1024 * GiB
	}
	for _, v := range c.volumes {
		if v.place == p {
			size -= v.size
		}
	}
	return size
}

// fill takes bytes of a place whose room is set.
func (c *Cloud) fill(p string, size int64) {
	if free, set := c.free[p]; set {
		c.free[p] = free - size
	}
}

// ids returns the numbers of all machines in order.
func (c *Cloud) ids() []int {
	ids := make([]int, 0, len(c.machines))
	for id := range c.machines {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// named returns the name of a machine, or its number if it has none.
func (c *Cloud) named(vmid int) string {
	if m := c.machines[vmid]; m != nil && m.config["name"] != "" {
		return m.config["name"]
	}
	return strconv.Itoa(vmid)
}
