package awsfake

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"nstance.dev/server/driver/drivertest/wire"
)

// The keys that a [Cloud] lets in without [Options].Keys.
const (
	AccessKey = "AKIAFAKEFAKEFAKEFAKE"
	SecretKey = "not-a-secret/of-a-fake-cloud"
)

// Options are the settings of a [Cloud]; the zero value is an account in which
// everything happens at once and nothing is limited.
type Options struct {
	Region  string            // us-east-1
	Keys    map[string]string // secret keys by access key; AccessKey and SecretKey
	Account *Account          // nil: DefaultAccount of the region

	Lag    time.Duration // what happened shows in the answers of describing calls this much later
	LagAll bool          // and that a machine exists is news to other calls for as long
	Boot   time.Duration // a new or started machine is pending for so long
	Stop   time.Duration // a machine is stopping for so long
	Detach time.Duration // a network interface that is taken away is detaching for so long
	Drain  time.Duration // a target that was taken away is draining for so long
	End    time.Duration // a machine is shutting-down for so long
	Linger time.Duration // a terminated machine is described for so long; 1h

	// HideSpotTokens has descriptions of spot machines show no client token. Whether EC2
	// shows it is not documented.
	HideSpotTokens bool

	PageSize int     // the most entries of one page, whatever a call asks for; 1000
	Enforce  bool    // throttle calls beyond Limits
	Speed    float64 // the buckets of Limits fill up so many times as fast; 1

	// Run starts what a machine is made of, when it has booted, and returns how to
	// end that; both may take their time. An error is as if the machine had powered
	// itself off. Nil: machines are entries in a table.
	Run func(Machine) (stop func(), err error)
}

// Cloud is an account of AWS in one region. It is an [http.Handler]: the endpoint
// of EC2 and of Elastic Load Balancing.
type Cloud struct {
	opts    Options
	account Account
	gate    *wire.Gate
	guests  guests

	mu          sync.Mutex
	made        int                  // numbers whatever gets an id
	machines    []*machine           // in order of creation; those long terminated are left out
	byToken     map[string]*launched // the outcome of launches by their client token
	room        map[Place]int        // how many machines still fit, where that is limited
	quota       int                  // of vCPUs; 0: none
	oldHardware bool                 // no machine is on Nitro
	doomed      int                  // how many of the next launches end instead of running
	doom        stateReason          // and why
	hidden      bool                 // searches find no machine
	interfaces  map[string]*netInterface
	members     map[string][]*member // of target groups, by ARN
}

// New makes an account without machines. It has to be closed if opts.Run is set.
func New(opts Options) *Cloud {
	if opts.Region == "" {
		opts.Region = "us-east-1"
	}
	if opts.Keys == nil {
		opts.Keys = map[string]string{AccessKey: SecretKey}
	}
	if opts.Linger == 0 {
		opts.Linger = time.Hour
	}
	if opts.PageSize <= 0 {
		opts.PageSize = 1000
	}
	account := DefaultAccount(opts.Region)
	if opts.Account != nil {
		account = *opts.Account
	}
	c := &Cloud{
		opts: opts, account: account, gate: wire.NewGate(),
		byToken: map[string]*launched{}, room: map[Place]int{},
		interfaces: map[string]*netInterface{}, members: map[string][]*member{},
	}
	if opts.Enforce {
		limits := Limits()
		if opts.Speed > 0 {
			limits = limits.Faster(opts.Speed)
		}
		c.gate.SetLimits(limits)
	}
	for _, i := range account.Interfaces {
		c.interfaces[i.ID] = &netInterface{Interface: i}
	}
	return c
}

// Gate is where calls are counted and where faults are switched on. The name of a
// call is that of the action; its key is the first of client token, instance id,
// interface id and ARN that the call has.
func (c *Cloud) Gate() *wire.Gate { return c.gate }

// Close ends whatever Options.Run has started, and waits for that.
func (c *Cloud) Close() { c.guests.close() }

// ServeHTTP answers one call of the query protocol.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := c.newID("req-")
	values, err := c.authenticated(r)
	if err != nil {
		service(values.Get("Version")).refuse(w, request, err)
		return
	}
	name := values.Get("Action")
	act, known := actions()[name]
	if !known || act.service.version != values.Get("Version") {
		service(values.Get("Version")).refuse(w, request, refuse("InvalidAction",
			"The action %s is not valid for this web service.", name))
		return
	}
	refused := func(err error) wire.Answer {
		return func(w http.ResponseWriter) { act.service.refuse(w, request, err) }
	}
	c.gate.Serve(w, r, name, subject(values), func(f wire.Fault) wire.Answer {
		return refused(act.service.fault(f))
	}, func() wire.Answer {
		result, err := act.do(c, values)
		if err != nil {
			return refused(err)
		}
		return func(w http.ResponseWriter) { act.service.answer(w, name, request, result) }
	})
}

// subject is what a call is about.
func subject(values url.Values) string {
	for _, name := range []string{"ClientToken", "InstanceId", "InstanceId.1", "NetworkInterfaceId", "NetworkInterfaceId.1",
		"AttachmentId", "TargetGroupArn", "SubnetId.1", "ResourceId.1"} {
		if value := values.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// newID makes an id that was not there before, in the long format of EC2.
func (c *Cloud) newID(prefix string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextID(prefix)
}

func (c *Cloud) nextID(prefix string) string {
	c.made++
	return fmt.Sprintf("%s0fa%014x", prefix, c.made)
}
