import AppStore
import ArgumentParser
import Subscriptions

/// The environment of a stream as an argument: its name in the database or Apple's name.
struct StreamEnvironment: ExpressibleByArgument {
    let value: Subscriptions.Environment

    init?(argument: String) {
        guard let value = Environment(rawValue: argument) ?? Environment(v2Name: argument) else { return nil }
        self.value = value
    }

    static let names = Environment.allCases.map(\.rawValue).joined(separator: ", ")
}
