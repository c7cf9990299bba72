import Encoding
import Server
import Simulation

/// Writes the files of `simulate` about Google Play.
enum PlayFiles {
    /// `{"at":…,"purchaseToken":…,"productId":…,"obfuscatedExternalAccountId":…,"signedPurchase":…,"signature":…,
    /// "story":…}`, in the order of time. The signed purchase is a text, and its signature is base64.
    static func writePurchases(of simulation: PlaySimulation, to name: String) throws {
        var file = try OutputFile(name)
        let packageName = simulation.storyteller.settings.packageName
        for (story, handIn) in simulation.handIns {
            let signed = SignedPlayPurchase(handIn, packageName: packageName)
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("at", handIn.at)
                writer.member("purchaseToken", handIn.purchaseToken)
                writer.member("productId", handIn.productId)
                writer.member("obfuscatedExternalAccountId", handIn.accountId)
                writer.member("signedPurchase", String(decoding: signed.text, as: UTF8.self))
                writer.member("signature", signed.signature)
                writer.member("story", story.name)
            }
            try file.write(line: writer.bytes)
        }
        try file.flush()
    }

    /// For each subscription and one-time purchase `{"app":…,"environment":…,"purchaseToken":…,"at":…,"active":…,
    /// "until":…,"productId":…,"status":…,"story":…}`, by its first purchase token, and for each app user the same lines as
    /// in the App Store. `until` is null if the access has no end, absent if it is not active.
    static func writeAnswers(
        of simulation: PlaySimulation, acknowledged: [Int: [String: Instant]] = [:], to file: inout OutputFile
    ) throws {
        let app = simulation.storyteller.settings.packageName
        for index in 0..<simulation.count {
            let acknowledged = acknowledged[index] ?? [:]
            for answer in simulation.answers(ofStory: index, acknowledged: acknowledged) {
                var writer = JSONWriter()
                writer.object { writer in
                    writer.member("app", app)
                    writer.member("environment", answer.story.environmentWord)
                    writer.member("purchaseToken", answer.purchaseToken)
                    writer.member("at", answer.at)
                    writer.member("active", answer.active)
                    if answer.active { writeEnd(answer.until, to: &writer) }
                    writer.member("productId", answer.productId)
                    writer.member("status", answer.status?.rawValue)
                    writer.member("story", answer.story.name)
                }
                try file.write(line: writer.bytes)
            }
            for answer in simulation.customerAnswers(ofStory: index, acknowledged: acknowledged) {
                for entitlement in answer.entitlements {
                    try file.write(line: line(entitlement, of: answer, app))
                }
            }
        }
    }

    private static func line(
        _ entitlement: CustomerAnswer.Entitlement, of answer: PlayCustomerAnswer, _ app: String
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("environment", answer.story.environmentWord)
            writer.member("customerId", answer.accountId)
            writer.member("as", SimulatedId.Kind.account.rawValue)
            writer.member("entitlement", entitlement.name)
            writer.member("at", answer.at)
            writer.member("active", entitlement.active)
            if entitlement.active { writeEnd(entitlement.until, to: &writer) }
            writer.member("story", answer.story.name)
        }
        return writer.bytes
    }

    private static func writeEnd(_ until: Instant?, to writer: inout JSONWriter) {
        writer.key("until")
        if let until { writer.value(until) } else { writer.value(rawJSON: "null") }
    }
}

extension PlayStory {
    fileprivate var environmentWord: String { isTest ? "sandbox" : "production" }
}
