package awsfake

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The limits of a session ("Use the Instance Metadata Service").
const (
	longestSession = 6 * time.Hour
	sessionTTL     = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	sessionToken   = "X-Aws-Ec2-Metadata-Token"
)

// Metadata is the instance metadata service as one machine sees it, in version 2
// alone: without the token of a session it tells nothing.
func (c *Cloud) Metadata(id string) http.Handler {
	return &metadata{cloud: c, id: id, sessions: map[string]time.Time{}}
}

type metadata struct {
	cloud *Cloud
	id    string

	mu       sync.Mutex
	sessions map[string]time.Time // when each ends
}

// ServeHTTP implements [http.Handler].
func (s *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/latest/api/token" {
		s.openSession(w, r)
		return
	}
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "405 - Method Not Allowed", http.StatusMethodNotAllowed)
	case !s.inSession(r.Header.Get(sessionToken)):
		http.Error(w, "401 - Unauthorized", http.StatusUnauthorized)
	default:
		value, found := s.cloud.metadata(s.id, strings.TrimSuffix(r.URL.Path, "/"))
		if !found {
			http.Error(w, "404 - Not Found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, value)
	}
}

func (s *metadata) openSession(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.Header.Get(sessionTTL))
	ttl := time.Duration(seconds) * time.Second
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "405 - Method Not Allowed", http.StatusMethodNotAllowed)
	case r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "403 - Forbidden", http.StatusForbidden)
	case err != nil || ttl < time.Second || ttl > longestSession:
		http.Error(w, "400 - Bad Request", http.StatusBadRequest)
	default:
		token := rand.Text()
		s.mu.Lock()
		s.sessions[token] = time.Now().Add(ttl)
		s.mu.Unlock()
		w.Header().Set(sessionTTL, strconv.Itoa(seconds))
		_, _ = io.WriteString(w, token)
	}
}

func (s *metadata) inSession(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.sessions[token])
}

// metadata is what a machine learns at a path ("Instance metadata categories").
func (c *Cloud) metadata(id, path string) (value string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo(time.Now())
	m := c.find(id)
	if m == nil {
		return "", false
	}
	if path == "/latest/user-data" {
		return string(m.userData), len(m.userData) > 0
	}
	if path == "/latest/dynamic/instance-identity/document" {
		return c.identity(m), true
	}
	name, below := strings.CutPrefix(path, "/latest/meta-data/")
	if key, tag := strings.CutPrefix(name, "tags/instance/"); below && tag {
		value, found = m.tags[key]
		return value, found
	}
	if nics, of := strings.CutPrefix(name, "network/interfaces/macs"); below && of {
		return c.devices(m, strings.Trim(nics, "/"))
	}
	value, found = map[string]string{
		"ami-id":                      m.image.ID,
		"instance-id":                 m.id,
		"instance-life-cycle":         m.lifeCycle(),
		"instance-type":               m.kind.Name,
		"local-hostname":              m.hostname(c.opts.Region),
		"local-ipv4":                  m.ipv4.String(),
		"placement/availability-zone": m.subnet.Zone,
		"placement/region":            c.opts.Region,
		"services/partition":          "aws",
		"spot/instance-action":        m.interruption(),
	}[name]
	return value, found && below && value != ""
}

// devices is what a machine learns of its network interfaces: their hardware addresses,
// and by those what each is. Tools that configure a host go by this.
func (c *Cloud) devices(m *machine, path string) (value string, found bool) {
	first := &netInterface{Interface: Interface{ID: m.nic, Subnet: m.subnet.ID, IPv4: m.ipv4}}
	all := append([]*netInterface{first}, c.attached(m.id)...)
	for _, index := range slices.Sorted(maps.Keys(m.stuck)) {
		all = append(all, m.stuck[index])
	}
	mac, property, _ := strings.Cut(path, "/")
	var macs []string
	for _, i := range all {
		macs = append(macs, i.mac()+"/")
		if i.mac() == mac {
			value, found = map[string]string{
				"device-number": strconv.Itoa(i.index),
				"interface-id":  i.ID,
				"local-ipv4s":   i.IPv4.String(),
				"mac":           mac,
				"subnet-id":     i.Subnet,
			}[property]
			return value, found
		}
	}
	return strings.Join(macs, "\n"), path == ""
}

func (m *machine) lifeCycle() string {
	if m.spot {
		return "spot"
	}
	return "on-demand"
}

// identity is the instance identity document.
func (c *Cloud) identity(m *machine) string {
	document, err := json.MarshalIndent(map[string]any{
		"accountId": c.account.ID, "architecture": m.kind.Architecture, "availabilityZone": m.subnet.Zone,
		"imageId": m.image.ID, "instanceId": m.id, "instanceType": m.kind.Name, "pendingTime": m.born.UTC().Format(time.RFC3339),
		"privateIp": m.ipv4.String(), "region": c.opts.Region, "version": "2017-09-30",
	}, "", "  ")
	if err != nil {
		panic(err) // strings and nothing else
	}
	return string(document)
}

// noticeTime is how long before its end a spot machine is told of it ("Spot Instance
// interruption notices").
const noticeTime = 2 * time.Minute

// Interrupt tells a spot machine that it ends in two minutes, and ends it then. It
// reports whether there is such a machine and it runs.
func (c *Cloud) Interrupt(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, m := time.Now(), c.find(id)
	if m == nil || !m.spot || !m.is(now, running) {
		return false
	}
	if m.notice.IsZero() {
		m.notice = now.Add(noticeTime)
		m.life = append(m.life, phase{m.notice, ending, bySpot}, phase{m.notice.Add(c.opts.End), terminated, bySpot}) // it runs: nothing else was to come
		c.guests.stop(id, noticeTime)
	}
	return true
}

// interruption is the notice that a machine finds, "" for none.
func (m *machine) interruption() string {
	if m.notice.IsZero() {
		return ""
	}
	notice, err := json.Marshal(map[string]string{"action": "terminate", "time": m.notice.UTC().Format(time.RFC3339)})
	if err != nil {
		panic(err) // strings and nothing else
	}
	return string(notice)
}
