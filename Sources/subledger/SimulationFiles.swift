import StoreSimulator
import Subscriptions

/// What `simulate` writes: deliveries and right answers, one JSON object a line.
enum SimulationFiles {
    /// `{"receivedAt":…,"signedDate":…,"story":…,"body":{…}}`, as `fold` reads it.
    static func writeDeliveries(of simulation: Simulation, to name: String) throws {
        var file = try OutputFile(name)
        for delivery in simulation.deliveries {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("receivedAt", delivery.receivedAt)
                writer.member("signedDate", delivery.signedDate)
                writer.member("story", delivery.story.name)
                writer.key("body")
                writer.value(rawJSON: delivery.body())
            }
            try file.write(line: writer.bytes)
        }
        try file.flush()
    }

    /// `{"app":…,"environment":…,"originalTransactionId":…,"at":…,"active":…,"story":…}`, with `"incomplete":true` for
    /// lines of which something is never delivered.
    static func writeAnswers(of simulation: Simulation, to name: String) throws {
        let app = simulation.settings.app
        var file = try OutputFile(name)
        for answer in simulation.answers {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("app", app.bundleId)
                writer.member("environment", app.environment.rawValue)
                writer.member("originalTransactionId", answer.originalTransactionId)
                writer.member("at", answer.at)
                writer.member("active", answer.active)
                writer.member("story", answer.story.name)
                if answer.isIncomplete { writer.member("incomplete", true) }
            }
            try file.write(line: writer.bytes)
        }
        try file.flush()
    }
}
