/// Stacked bars, each a link; what was lost stands beside what was gained.
struct BarChart {
    struct Series {
        let name: String
        let values: [Double]
        /// In the second bar of a place.
        let isLoss: Bool
    }

    let name: String
    let places: [String]
    let series: [Series]
    /// The last place is not over.
    let isRunning: Bool
    let address: (_ place: Int) -> Address

    func write(to html: inout HTMLWriter) {
        let sums = places.indices.map { place in
            [false, true].map { loss in series.filter { $0.isLoss == loss }.reduce(0) { $0 + $1.values[place] } }
        }
        let chart = ChartFrame(most: sums.flatMap(\.self).max() ?? 0, places: places.count)
        ChartFrame.legend(series.enumerated().map { ($1.name, "b\($0 % 5)") }, to: &html)
        let width = min(chart.step * 0.4, 60)
        chart.write(name, labels: places, to: &html) { html in
            for (place, label) in places.enumerated() {
                let running = isRunning && place == places.count - 1
                let values = series.map { "\($0.name) \(ChartFrame.text($0.values[place]))" }
                let words = "\(label)\(running ? ", not over" : ""): \(values.joined(separator: ", "))"
                html.element("a", [.href(address(place)), .text(.label, words)]) { html in
                    html.element("title", text: words)
                    for loss in [false, true] {
                        var below = 0.0
                        let left = chart.x(place) + (loss ? 1 : -width - 1)
                        for (index, each) in series.enumerated() where each.isLoss == loss && each.values[place] > 0 {
                            let value = each.values[place]
                            let top = chart.y(below + value)
                            let place: [Attribute] = [
                                .number(.x, left), .number(.y, top), .number(.width, width),
                                .number(.height, max(chart.y(below) - top, 1)),
                            ]
                            html.element("rect", place + [.class("bar b\(index % 5)")]) { _ in }
                            if running {
                                html.element("rect", place + [.text(.fill, "url(#later)"), .class("running")]) { _ in }
                            }
                            below += value
                        }
                    }
                }
            }
        }
    }
}
