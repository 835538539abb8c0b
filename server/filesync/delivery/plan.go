package delivery

import (
	"slices"
	"time"
)

// Plan says what to do for the machine now. It changes nothing: as long as nothing is
// noted, equal times give equal plans.
func (l *Ledger) Plan(w Wanted, now time.Time) Plan {
	if !l.heard {
		return Plan{}
	}
	p := planning{ledger: l, wanted: w, now: now, drifted: l.report.Hash != w.Hash}
	p.whole = p.drifted && (l.commit.due(w.Hash, now) || len(l.staged) > 0)
	for _, f := range w.Files {
		if f.Certificate() {
			p.certificate(f)
		} else {
			p.content(f)
		}
	}
	return p.plan()
}

// planning is a plan in the making.
type planning struct {
	ledger *Ledger
	wanted Wanted
	now    time.Time

	drifted bool // the machine has another hash
	whole   bool // and it is time to do something about it

	contents, certificates []Push
	keys                   []string
}

func (p *planning) plan() Plan {
	plan := Plan{Files: slices.Concat(p.contents, p.certificates), Whole: p.whole, Commit: p.hash()}
	slices.Sort(p.keys)
	if keys := slices.Compact(p.keys); len(keys) > 0 && p.ledger.keys.due(all(keys), p.now) {
		plan.Keys = keys
	}
	if len(plan.Files) == 0 && len(p.ledger.staged) == 0 && !p.whole {
		plan.Commit = ""
	}
	return plan
}

// hash is what a batch of now completes. While a drift has to wait, the machine keeps the
// hash that is true of it.
func (p *planning) hash() string {
	if p.drifted && !p.whole {
		return p.ledger.report.Hash
	}
	return p.wanted.Hash
}

// content looks at a file that is no certificate. While the machine has another hash its
// files change together or not at all.
func (p *planning) content(f File) {
	status, _ := p.ledger.report.Files.Find(f.Name)
	staged, isStaged := p.ledger.staged[f.Name]
	reason := Missing
	switch {
	case isStaged && staged == mark{p.wanted.Hash, f.Version}:
		return
	case p.whole, isStaged:
		reason = Drifted
	case p.drifted:
		return
	case status.Error != "":
		reason = Failed
	case f.is(status):
		return
	case status.inPlace():
		reason = Changed
	}
	if p.whole || isStaged || p.ledger.files[f.Name].due(f.Version, p.now) {
		p.contents = append(p.contents, Push{File: f, Reason: reason})
	}
}

func (p *planning) certificate(f File) {
	if f.NoKey {
		p.keys = append(p.keys, f.Key)
		return
	}
	reason, lacking := p.lacksCertificate(f)
	if !lacking || p.hash() == "" {
		return
	}
	if staged, ok := p.ledger.staged[f.Name]; ok && staged.version == f.Version {
		return
	}
	if p.ledger.files[f.Name].due(f.Version, p.now) {
		p.certificates = append(p.certificates, Push{File: f, Reason: reason})
	}
}

// lacksCertificate says whether a certificate is to be issued. Which names and key one was
// issued for that another leader issued is not known: it stays until the configuration
// changes.
func (p *planning) lacksCertificate(f File) (Reason, bool) {
	status, _ := p.ledger.report.Files.Find(f.Name)
	last, tried := p.ledger.files[f.Name]
	switch {
	case status.Error != "":
		return Failed, true
	case !status.inPlace():
		return Missing, true
	case !p.now.Before(f.RenewAt(status.Modified)):
		return Aged, true
	case !tried && p.whole:
		return Drifted, true
	case tried && last.sent.version != f.Version:
		return Rekeyed, true
	}
	return "", false
}
