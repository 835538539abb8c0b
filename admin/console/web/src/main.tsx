import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/fleet.css";
import "./styles/pages.css";

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { listen } from "./keys";
import { begin } from "./live";
import { DemandPage } from "./pages/demand";
import { ErrorsPage } from "./pages/errors";
import { FleetPage } from "./pages/fleet";
import { GroupPage } from "./pages/group";
import { InstancePage } from "./pages/instance";
import { MachinesPage } from "./pages/machines";
import { PlanPage } from "./pages/plan";
import { ShardsPage } from "./pages/shards";
import { routeOf, type Route } from "./model/route";
import { follow, go, route } from "./router";
import { beginTheme } from "./theme";
import { Announcer } from "./ui/announce";
import { Help } from "./ui/help";
import { Search } from "./ui/search";
import { Shell, turnTheme } from "./ui/shell";
import { Empty } from "./ui/states";
import { Tip } from "./ui/tip";

function Page({ at }: { at: Route }) {
  switch (at.page) {
    case "fleet":
      return <FleetPage />;
    case "group":
      return <GroupPage key={`${at.shard}/${at.tenant}/${at.group}`} {...at} />;
    case "instance":
      return <InstancePage key={`${at.shard}/${at.id}`} {...at} />;
    case "shards":
      return <ShardsPage />;
    case "demand":
      return <DemandPage />;
    case "machines":
      return <MachinesPage />;
    case "errors":
      return <ErrorsPage />;
    case "plan":
      return <PlanPage />;
    case "missing":
      return (
        <Empty page title="There is no such page">
          <span class="mono">{at.path}</span> names none. <a href="/">Go to the fleet</a>
        </Empty>
      );
  }
}

function App() {
  const [open, setOpen] = useState<"search" | "help" | undefined>(undefined);
  const close = () => setOpen(undefined);
  useEffect(() => listen({ search: () => setOpen("search"), help: () => setOpen("help"), theme: turnTheme }), []);
  return (
    <>
      <Shell onSearch={() => setOpen("search")} onHelp={() => setOpen("help")}>
        <Page at={route.value} />
      </Shell>
      <Tip />
      <Announcer />
      {open === "help" && <Help onClose={close} />}
      {open === "search" && (
        <Search
          onClose={close}
          visit={(href) => {
            close();
            go(routeOf(href));
          }}
        />
      )}
    </>
  );
}

beginTheme();
follow();
begin();
render(<App />, document.getElementById("app") as HTMLElement);
