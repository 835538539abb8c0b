package shard

import (
	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/render"
)

// request renders the create call of an instance. It holds the nonce: it is
// neither logged nor stored.
func (r *Reign) request(rec bucket.InstanceRecord, token string, eff *config.EffectiveGroup, fetched []byte) (driver.CreateRequest, error) {
	data := r.templateData(rec, eff)
	args, err := render.Args(eff.Args, data)
	if err != nil {
		return driver.CreateRequest{}, err
	}
	data.Nonce = token
	userdata, err := render.Userdata(eff.Userdata, fetched, data, r.wanted.config().MaxUserdata())
	if err != nil {
		return driver.CreateRequest{}, err
	}
	return driver.CreateRequest{
		InstanceID: rec.ID, Owner: r.owner(), Tenant: rec.Tenant, Group: rec.Group, Template: rec.Template,
		Kind: rec.Kind, Arch: rec.Arch, InstanceType: rec.InstanceType, SubnetID: rec.SubnetID,
		Args: args, Outranked: eff.Outranked, UserData: userdata, CreatedAt: rec.CreatedAt.Time,
	}, nil
}

// templateData is what the templates of one instance may refer to, but for the
// nonce.
func (r *Reign) templateData(rec bucket.InstanceRecord, eff *config.EffectiveGroup) render.Data {
	addrs := r.opts.Addresses()
	provider := r.wanted.config().Server.Provider
	return render.Data{
		Instance: render.Instance{
			ID: rec.ID.String(), Kind: rec.Kind, Arch: rec.Arch, Type: rec.InstanceType,
			Group: rec.Group, Tenant: rec.Tenant, OnDemand: rec.OnDemand,
			Hostname: rec.Hostname, FQDN: rec.Hostname, IP4: rec.IPv4, IP6: rec.IPv6,
		},
		Cluster: render.Cluster{ID: r.opts.Cluster, CACert: string(r.opts.Keys().Authority.CA().Bundle())},
		Server: render.Server{
			Shard: r.opts.Shard, RegistrationAddr: addrs.Registration, AgentAddr: addrs.Agent, OperatorAddr: addrs.Operator,
		},
		Provider: render.Provider{Kind: provider.Kind, Region: provider.Region, Zone: provider.Zone},
		Vars:     eff.Vars,
		Image:    r.images.Known(),
	}
}
