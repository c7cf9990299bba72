import Foundation

// Handing transactions in: in order, one request at a time, and none is finished before the server has stored it.
extension Subledger {
    /// Takes a transaction of the listener.
    func receive(_ transaction: SignedTransaction) async {
        defer { received += 1 }
        // Without a user, the store keeps it.
        guard session != nil else { return }
        enqueue(transaction)
        await catchUp()
    }

    /// Hands in what waits, asks the server, and publishes what is known then.
    func catchUp() async {
        guard session != nil else { return }
        await handIn()
        try? await ask()
        await publish()
    }

    /// Adds a transaction to those that wait. A newer text of the same transaction, such as a refund, takes its place.
    ///
    /// One of another user of the device stays with the store, for that user's next login: it must not become this one's.
    func enqueue(_ transaction: SignedTransaction) {
        guard let user = session?.user, transaction.appAccountToken ?? user == user else { return }
        refused[transaction.id] = nil
        guard let known = waiting.firstIndex(where: { $0.id == transaction.id }) else {
            waiting.append(transaction)
            return
        }
        waiting[known] = transaction
    }

    /// Hands in what waits and what the store has not finished. Returns when everything was tried; what failed is tried again
    /// after a pause.
    func handIn() async {
        await waitForTurn()
        defer { endTurn() }
        guard let user = session?.user else { return }
        let unfinished = await store.unfinished()
        guard session?.user == user else { return }
        for transaction in unfinished where refused[transaction.id] == nil {
            if !waiting.contains(where: { $0.id == transaction.id }) { enqueue(transaction) }
        }
        while session?.user == user, let next = waiting.first {
            do throws(SubledgerError) {
                try await handIn([next], appTransaction: nil, of: user)
            } catch {
                guard case .refused = error else { return retryLater(error) }
                refused[next.id] = error
                waiting.removeAll { $0 == next }
            }
        }
        if session?.user == user { failures = 0 }
    }

    private func waitForTurn() async {
        guard isHandingIn else {
            isHandingIn = true
            return
        }
        await withCheckedContinuation { turns.append($0) }
    }

    private func endTurn() {
        if turns.isEmpty { isHandingIn = false } else { turns.removeFirst().resume() }
    }

    /// Hands transactions in, and finishes them.
    ///
    /// - Throws: If the server did not store them; ``SubledgerError/notStarted`` if the user has signed out.
    private func handIn(
        _ transactions: [SignedTransaction], appTransaction: String?, of user: UUID
    ) async throws(SubledgerError) {
        guard let session, session.user == user else { throw .notStarted }
        let response: ClientResponse
        do {
            let request = try Requests.handIn(
                transactions.map(\.text), appTransaction: appTransaction, app: configuration.app,
                customerId: session.customerId)
            response = try await send(request, for: session)
        } catch {
            throw error as? SubledgerError ?? .unreachable
        }
        guard response.status == 200 else { throw SubledgerError(response) }
        guard let stored = StoredAnswer(response.body) else { throw .answer("no JSON of the server") }
        for transaction in transactions {
            await store.finish(transaction)
            waiting.removeAll { $0 == transaction }
        }
        learn(stored, of: session.user)
    }

    private func learn(_ stored: StoredAnswer, of user: UUID) {
        guard session?.user == user else { return }
        session?.answer.products.merge(stored.products) { $1 }
        // Production is asked first: another environment only counts while production grants nothing.
        if let session, stored.environment != session.answer.environment, session.token?.grants.isEmpty ?? true {
            self.session?.answer.environment = stored.environment
            self.session?.answer.token = nil
            self.session?.answer.tag = nil
            self.session?.token = nil
        }
        keep()
    }

    /// Hands in what restoring found, and with the first ones the signed text about the purchase of the app.
    ///
    /// - Returns: The products of those that the server refused.
    func handIn(restored: [SignedTransaction], appTransaction: String?) async throws -> [String] {
        await waitForTurn()
        defer { endTurn() }
        guard let user = session?.user else { throw SubledgerError.notStarted }
        var refused: [String] = []
        for start in stride(from: 0, to: restored.count, by: Limits.transactionsMax) {
            let batch = Array(restored[start..<min(start + Limits.transactionsMax, restored.count)])
            do throws(SubledgerError) {
                try await handIn(batch, appTransaction: start == 0 ? appTransaction : nil, of: user)
            } catch {
                guard case .refused = error else { throw error }
                refused += try await handInEach(batch, of: user)
            }
        }
        return refused
    }

    /// Hands in one by one what the server refuses together: it may refuse only some.
    private func handInEach(_ transactions: [SignedTransaction], of user: UUID) async throws -> [String] {
        var refused: [String] = []
        for transaction in transactions {
            do throws(SubledgerError) {
                try await handIn([transaction], appTransaction: nil, of: user)
            } catch {
                guard case .refused = error else { throw error }
                self.refused[transaction.id] = error
                refused.append(transaction.productId)
            }
        }
        return refused
    }

    // MARK: - Failures

    private func retryLater(_ error: SubledgerError) {
        guard session != nil else { return }
        failures += 1
        let doubled = Limits.pauseSecondsMin * pow(2, Double(min(failures - 1, 20)))
        var seconds = min(doubled, Limits.pauseSecondsMax) * (0.5 + random() / 2)
        if case .unavailable(_, let after?) = error { seconds = max(seconds, min(after, Limits.retryAfterSecondsMax)) }
        retry?.cancel()
        retry = Task { [weak self, clock] in
            await clock.sleep(seconds: seconds)
            guard !Task.isCancelled else { return }
            await self?.catchUpAfterPause()
        }
    }

    private func catchUpAfterPause() async {
        // Another failure must not cancel this task, in which the store is asked what is current.
        retry = nil
        await catchUp()
    }
}
