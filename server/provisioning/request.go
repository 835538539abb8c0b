package provisioning

import (
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/layout"
	"nstance.dev/server/render"
)

// request renders the create call of an instance. It holds the nonce: it is
// neither logged nor stored.
func (d *builder) request(rec layout.InstanceRecord, token string, eff *effective.Group, fetched []byte, bought *Purchase) (driver.CreateRequest, error) {
	data := d.templateData(rec, eff)
	args, err := render.Args(eff.Args, data)
	if err != nil {
		return driver.CreateRequest{}, err
	}
	data.Nonce, data.Machine.Policy = token, eff.Machine.PolicyText()
	if bought != nil {
		data.Join = bought.Join
	}
	userdata, err := render.Userdata(eff.Userdata, fetched, data, d.opts.Groups.Config().MaxUserdata())
	if err != nil {
		return driver.CreateRequest{}, err
	}
	req := driver.CreateRequest{
		InstanceID: rec.ID, Owner: d.opts.Owner, Tenant: rec.Tenant, Group: rec.Group, Template: rec.Template,
		Kind: rec.Kind, Arch: rec.Arch, InstanceType: rec.InstanceType, SubnetID: rec.SubnetID,
		Args: args, Outranked: eff.Outranked, UserData: userdata, CreatedAt: rec.CreatedAt.Time,
	}
	if p := rec.Purchase; p != nil {
		req.CapacityType, req.Reservation = driver.CapacityType(p.CapacityType), p.Reservation
	}
	return req, nil
}

// templateData is what the templates of one instance may refer to, but for the
// nonce.
func (d *builder) templateData(rec layout.InstanceRecord, eff *effective.Group) render.Data {
	addrs := d.opts.Addresses()
	provider := d.opts.Groups.Config().Server.Provider
	return render.Data{
		Instance: render.Instance{
			ID: rec.ID.String(), Kind: rec.Kind, Arch: rec.Arch, Type: rec.InstanceType,
			Group: rec.Group, Tenant: rec.Tenant, OnDemand: rec.OnDemand,
			Hostname: rec.Hostname, FQDN: rec.Hostname, IP4: rec.IPv4, IP6: rec.IPv6,
		},
		Cluster: render.Cluster{ID: d.opts.Owner.Cluster, CACert: string(d.opts.Keys().CA)},
		Server: render.Server{
			Shard: d.opts.Owner.Shard, RegistrationAddr: addrs.Registration, AgentAddr: addrs.Agent, OperatorAddr: addrs.Operator,
		},
		Provider: render.Provider{Kind: provider.Kind, Region: provider.Region, Zone: provider.Zone},
		Vars:     eff.Vars,
		Image:    d.images(),
	}
}
