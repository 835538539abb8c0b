package awsfake

import (
	"encoding/base64"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// maxConsole is how much of what a machine has written is kept.
const maxConsole = 64 << 10

type consoleReply struct {
	reply
	InstanceID string `xml:"instanceId"`
	Timestamp  string `xml:"timestamp"`
	Output     string `xml:"output"`
}

// getConsoleOutput tells what a machine has written to its serial console, up to now only if it is
// on Nitro.
func (c *Cloud) getConsoleOutput(in *ec2.GetConsoleOutputInput) (any, error) {
	if in.InstanceId == nil {
		return nil, missing("InstanceId")
	}
	machines, err := c.named([]string{*in.InstanceId}, c.known())
	if err != nil {
		return nil, err
	}
	m := machines[0]
	if in.Latest != nil && *in.Latest && c.oldHardware {
		return nil, refuse("UnsupportedOperation", "This instance type does not support retrieving the latest console logs.")
	}
	return &consoleReply{InstanceID: m.id, Timestamp: timestamp(time.Now()), Output: base64.StdEncoding.EncodeToString(m.console)}, nil
}

// Write has a machine write to its serial console; false: there is none.
func (c *Cloud) Write(id, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(id)
	if m == nil {
		return false
	}
	m.console = append(m.console, text...)
	m.console = m.console[max(0, len(m.console)-maxConsole):]
	return true
}

// SetOldHardware says that no machine is on Nitro.
func (c *Cloud) SetOldHardware(old bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldHardware = old
}
