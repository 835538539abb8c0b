package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// network fills in the counters of the watched interface: all of them, or the reason why
// there are none.
func (c *Collector) network(m *nstancev1.Metrics) {
	dir := filepath.Join(c.options.Sys, "class/net", c.options.Interface, "statistics")
	n := &nstancev1.NetworkInterface{InterfaceName: c.options.Interface}
	var errs []error
	for name, field := range map[string]**uint64{
		"rx_bytes": &n.RxBytes, "tx_bytes": &n.TxBytes,
		"rx_packets": &n.RxPackets, "tx_packets": &n.TxPackets,
		"rx_dropped": &n.RxDrops, "tx_dropped": &n.TxDrops,
	} {
		value, err := readNumber(filepath.Join(dir, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*field = proto.Uint64(value)
	}
	if len(errs) > 0 {
		m.NetworkInterfaceError = proto.String(fmt.Sprintf("interface %s: %v", c.options.Interface, errs[0]))
		return
	}
	m.NetworkInterface = n
}

// conntrack fills in the size of the connection tracking table, or why it is unknown.
func (c *Collector) conntrack(m *nstancev1.Metrics) {
	dir := filepath.Join(c.options.Proc, "sys/net/netfilter")
	count, countErr := readNumber(filepath.Join(dir, "nf_conntrack_count"))
	limit, limitErr := readNumber(filepath.Join(dir, "nf_conntrack_max"))
	if err := errors.Join(countErr, limitErr); err != nil {
		m.ConntrackError = proto.String(err.Error())
		return
	}
	m.ConntrackCount, m.ConntrackMax = proto.Uint64(count), proto.Uint64(limit)
}

func readNumber(path string) (uint64, error) {
	text, err := readText(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a number", path)
	}
	return n, nil
}

func readText(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// BootID returns the kernel's id of this boot, which changes when the machine reboots.
func (c *Collector) BootID() (string, error) {
	id, err := readText(filepath.Join(c.options.Proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return id, nil
}

// uptime returns the time since the machine's boot in Go's notation.
func (c *Collector) uptime() (string, error) {
	text, err := readText(filepath.Join(c.options.Proc, "uptime"))
	if err != nil {
		return "", fmt.Errorf("measure uptime: %w", err)
	}
	first, _, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil || seconds < 0 || seconds > 1e9 {
		return "", fmt.Errorf("measure uptime: %.40q is not a number of seconds", first)
	}
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond).String(), nil
}
