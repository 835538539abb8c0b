package gcpfake

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// Conditions are how long things take for as long as they last. The zero value is a
// cloud in which all is done at once, though never before the next call.
type Conditions struct {
	Boot time.Duration // from insert or start until RUNNING, and until the operation is done
	End  time.Duration // from delete or stop until gone or TERMINATED
	Work time.Duration // of every other operation
	Lag  time.Duration // what was made, and what ended, shows in get and list so much later
}

// Options are the settings of a [Cloud]; zero fields take what is named beside them.
type Options struct {
	Conditions

	Project string        // nstance-fake
	Region  string        // europe-west1
	Zones   []string      // -b, -c and -d of the region
	Subnets []Subnet      // DefaultSubnet
	Types   []MachineType // Catalogue
	Images  []Image       // DefaultImages

	// Permissions are those of the caller, compute.instances.create and others; nil:
	// all.
	Permissions []string

	Notice   time.Duration // between a spot notice and the end; 30s
	PageSize int           // the most entries in a page; 500, which the service has
	CPUs     int           // quota of virtual CPUs in the region; 0: no quota
	Limits   wire.Limits   // rates of calls; zero: none. See DocumentedLimits

	// Run is told of a machine that has booted, and returns how to end it. It and
	// stop are called one after the other, in the order in which things happened,
	// and may take their time. A machine for which Run fails ends at once. Nil:
	// machines are entries in a table.
	Run func(Machine) (stop func(), err error)
}

func (o Options) complete() Options {
	o.Project = cmp.Or(o.Project, "nstance-fake")
	o.Region = cmp.Or(o.Region, "europe-west1")
	o.Notice = cmp.Or(o.Notice, 30*time.Second)
	o.PageSize = cmp.Or(o.PageSize, 500)
	if o.Zones == nil {
		o.Zones = []string{o.Region + "-b", o.Region + "-c", o.Region + "-d"}
	}
	if o.Subnets == nil {
		o.Subnets = []Subnet{DefaultSubnet}
	}
	if o.Types == nil {
		o.Types = Catalogue
	}
	if o.Images == nil {
		o.Images = DefaultImages
	}
	return o
}

// Cloud is one project of Google Cloud. Its methods are safe for concurrent use.
type Cloud struct {
	opts Options
	gate *wire.Gate
	mux  *http.ServeMux

	mu         sync.Mutex
	conditions Conditions
	now        time.Time // of the call that is being carried out
	serial     uint64    // counts everything that has an id
	events     events
	hooks      hooks
	changed    chan struct{} // closed at the next change

	subnets    map[string]*subnet
	instances  map[place]*instance
	ghosts     []*instance // gone, and still shown
	operations map[string]*operation
	requests   map[string]*operation // by requestId
	room       map[place]int         // machines of a type that still fit into a zone
	hidden     bool                  // listings show no machine
	constraint string                // of the organization, which forbids new machines; "": none does
	failing    string                // the code with which the operation of the next create ends; "": none
	tokens     map[string]time.Time  // and when they end
	used       map[string]bool       // permissions that calls took
	groups     map[place]*group
	endpoints  map[place]*endpointGroup
}

// place is a name in a zone.
type place struct{ zone, name string }

// New makes an empty project.
func New(opts Options) *Cloud {
	opts = opts.complete()
	c := &Cloud{
		opts:       opts,
		gate:       wire.NewGate(),
		mux:        http.NewServeMux(),
		conditions: opts.Conditions,
		now:        time.Now(),
		changed:    make(chan struct{}),
		subnets:    map[string]*subnet{},
		instances:  map[place]*instance{},
		operations: map[string]*operation{},
		requests:   map[string]*operation{},
		room:       map[place]int{},
		tokens:     map[string]time.Time{},
		used:       map[string]bool{},
		groups:     map[place]*group{},
		endpoints:  map[place]*endpointGroup{},
	}
	c.gate.SetLimits(opts.Limits)
	for _, s := range opts.Subnets {
		c.subnets[s.Name] = newSubnet(s)
	}
	for _, v := range verbs() {
		c.mux.Handle(v.pattern, c.handler(v))
	}
	return c
}

// verbs are all methods that this project understands.
func verbs() []verb {
	return []verb{
		on("Instances", "Insert", (*Cloud).insertInstance),
		on("Instances", "Get", (*Cloud).getInstance),
		on("Instances", "List", (*Cloud).listInstances),
		on("Instances", "Delete", (*Cloud).deleteInstance),
		on("Instances", "Stop", (*Cloud).stopInstance),
		on("Instances", "Start", (*Cloud).startInstance),
		on("Instances", "Reset", (*Cloud).resetInstance),
		on("Instances", "GetSerialPortOutput", (*Cloud).getSerialPortOutput),
		on("Instances", "Suspend", (*Cloud).suspendInstance),
		on("Instances", "Resume", (*Cloud).resumeInstance),
		on("Instances", "SimulateMaintenanceEvent", (*Cloud).simulateMaintenance),
		on("Instances", "SetLabels", (*Cloud).setLabels),
		on("Instances", "UpdateNetworkInterface", (*Cloud).updateInterface),
		on("InstanceGroups", "Insert", (*Cloud).insertGroup),
		on("InstanceGroups", "Get", (*Cloud).getGroup),
		on("InstanceGroups", "List", (*Cloud).listGroups),
		on("InstanceGroups", "AddInstances", (*Cloud).addInstances),
		on("InstanceGroups", "RemoveInstances", (*Cloud).removeInstances),
		on("InstanceGroups", "ListInstances", (*Cloud).listMembers),
		on("NetworkEndpointGroups", "Insert", (*Cloud).insertEndpointGroup),
		on("NetworkEndpointGroups", "Get", (*Cloud).getEndpointGroup),
		on("NetworkEndpointGroups", "List", (*Cloud).listEndpointGroups),
		on("NetworkEndpointGroups", "AttachNetworkEndpoints", (*Cloud).attachEndpoints),
		on("NetworkEndpointGroups", "DetachNetworkEndpoints", (*Cloud).detachEndpoints),
		on("NetworkEndpointGroups", "ListNetworkEndpoints", (*Cloud).listEndpoints),
		on("Zones", "Get", (*Cloud).getZone),
		on("Zones", "List", (*Cloud).listZones),
		on("MachineTypes", "Get", (*Cloud).getMachineType),
		on("MachineTypes", "List", (*Cloud).listMachineTypes),
		on("Subnetworks", "Get", (*Cloud).getSubnetwork),
		on("Subnetworks", "List", (*Cloud).listSubnetworks),
		on("ZoneOperations", "Get", (*Cloud).getZoneOperation),
		on("ZoneOperations", "List", (*Cloud).listZoneOperations),
		on("ZoneOperations", "Wait", (*Cloud).waitZoneOperation),
	}
}

// Gate is what stands before the API: the calls so far, faults and limits.
func (c *Cloud) Gate() *wire.Gate { return c.gate }

// Project is the project's id.
func (c *Cloud) Project() string { return c.opts.Project }

// Region is the region of all zones.
func (c *Cloud) Region() string { return c.opts.Region }

// SetConditions replaces the conditions for what begins from now on.
func (c *Cloud) SetConditions(to Conditions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conditions = to
}

// ServeHTTP answers a call of the API.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := c.mux.Handler(r); pattern == "" {
		(&apiError{http.StatusNotFound, "notFound", fmt.Sprintf("This fake has no method at %s %s", r.Method, r.URL.Path), ""}).write(w)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// serve carries out a call that was understood.
func (c *Cloud) serve(w http.ResponseWriter, r *http.Request, v verb, about call, in proto.Message) {
	run := func(about call) wire.Answer { return c.answer(v.run(c, about, in)) }
	refuse := func(f wire.Fault) wire.Answer {
		if f.Kind == driver.Capacity && !f.After && bootingOps[v.op] {
			about.full = true
			return run(about)
		}
		return refusal(f, v.op).write
	}
	c.gate.Serve(w, r, v.op, v.key(r), refuse, func() wire.Answer { return run(about) })
}

// answer writes what a verb said.
func (c *Cloud) answer(out proto.Message, err error) wire.Answer {
	if err != nil {
		refused, ok := errors.AsType[*apiError](err)
		if !ok {
			refused = &apiError{http.StatusInternalServerError, "internalError", err.Error(), ""}
		}
		return refused.write
	}
	body, err := protojson.Marshal(out)
	if err != nil {
		return c.answer(nil, err)
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = w.Write(body)
	}
}

// id returns the next id of anything. The caller holds the lock.
func (c *Cloud) id() uint64 {
	c.serial++
	return 1_000_000_000_000_000_000 + c.serial
}
