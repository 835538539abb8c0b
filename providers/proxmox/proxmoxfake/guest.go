package proxmoxfake

// Guest is what a machine boots with.
type Guest struct {
	VMID     int
	Name     string
	Node     string
	UserData []byte // from the CD with the label cidata; nil if there is none
	MetaData []byte

	// NetworkConfig is cloud-init's network configuration from that CD; nil: none.
	NetworkConfig []byte
}

// run starts what a machine runs. The caller has marked it as running.
func (c *Cloud) run(m *machine) error {
	if c.opts.Run == nil {
		return nil
	}
	g := Guest{VMID: m.id, Name: m.name(), Node: m.node}
	for _, option := range driveNames(m.config) {
		d := parseDrive(m.config[option])
		v := c.find(d.volume, m.node)
		if v == nil || !d.cdrom() {
			continue
		}
		if seed, ok := readSeed(v.data); ok {
			g.UserData, g.MetaData, g.NetworkConfig = seed["user-data"], seed["meta-data"], seed["network-config"]
		}
	}
	running, err := c.opts.Run(g)
	if err != nil {
		m.halt(false)
		return die("start failed: %v", err)
	}
	m.guest = running
	return nil
}
