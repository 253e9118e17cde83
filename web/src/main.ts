// The page of `tcpwhy report`: shows the data that stands in it.

import { show } from "./report";

show(document.getElementById("page")!, document.getElementById("data")!.textContent ?? "");
