package awsfake

import "time"

// Holder returns the id of the machine that a network interface is attached to, ""
// for none.
func (c *Cloud) Holder(interfaceID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo(time.Now())
	if i := c.interfaces[interfaceID]; i != nil {
		return i.machine
	}
	return ""
}
