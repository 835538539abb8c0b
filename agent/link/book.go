package link

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"nstance.dev/agent/settings"
)

// Service is one of the services that a server offers to agents.
type Service string

// The services, by their names in the address file.
const (
	Registration Service = "registration"
	Agent        Service = "agent"
)

// Book says which address to dial next: those of a list, or of a file that the leader
// rewrites, one after the other; and first of all the leader that another server has
// named. The source is read again for every dial.
//
// A Book is used by one goroutine at a time.
type Book struct {
	source func() ([]string, error)

	turn     int    // index of the next address; grows for ever
	tried    int    // addresses of the source dialled since the last pause
	last     string // dialled last
	worked   string // served last; the next dial starts there if it is still listed
	hint     string // to be dialled next
	followed bool   // a hint has been followed since the last pause
}

// NewBook returns the book of a service: the addresses in list or, unless file is empty,
// those in the file.
func NewBook(list []string, file string, service Service) *Book {
	if file != "" {
		return &Book{source: func() ([]string, error) { return readFile(file, service) }}
	}
	return &Book{source: func() ([]string, error) { return list, nil }}
}

// Next returns the address to dial.
func (b *Book) Next() (string, error) {
	if b.hint != "" {
		b.last, b.hint, b.followed = b.hint, "", true
		return b.last, nil
	}
	addrs, err := b.source()
	if err != nil {
		return "", err
	}
	if i := slices.Index(addrs, b.worked); i >= 0 {
		b.turn = i
	}
	b.worked = ""
	b.last = addrs[b.turn%len(addrs)]
	b.turn++
	b.tried++
	return b.last, nil
}

// Failed records that the last address did not serve, and reports whether there is
// another one to try at once. leader is what the server said in [identity.LeaderTrailer], or "".
// If it returns false, all have been tried: the caller pauses.
//
// Only one hint is followed between two pauses, because two servers that take each other
// for the leader must not keep the agent running between them.
func (b *Book) Failed(leader string) (again bool) {
	if !b.followed && leader != "" && leader != b.last && settings.ValidateAddress(leader) == nil {
		b.hint = leader
		return true
	}
	addrs, err := b.source()
	if err == nil && b.tried > 0 && b.tried < len(addrs) {
		return true
	}
	b.tried, b.followed = 0, false
	return false
}

// Worked records that the last address served: the next dial starts there.
func (b *Book) Worked() {
	b.tried, b.followed, b.worked = 0, false, b.last
}

// readFile reads the addresses that the leader has published, for example
//
//	{"registration": "127.0.0.1:8992", "agent": "127.0.0.1:8994"}
func readFile(path string, service Service) ([]string, error) {
	const most = 64 << 10
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read address file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("address file %s is not a file of at most %d bytes", path, most)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read address file: %w", err)
	}
	return parseFile(path, data, service)
}

func parseFile(path string, data []byte, service Service) ([]string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("address file %s: %w", path, err)
	}
	var list string
	if err := json.Unmarshal(fields[string(service)], &list); err != nil || list == "" {
		return nil, fmt.Errorf("address file %s: it has no address as %q", path, service)
	}
	addrs, err := settings.SplitAddresses(list)
	if err != nil {
		return nil, fmt.Errorf("address file %s: %s: %w", path, service, err)
	}
	return addrs, nil
}
